# Sourced by the scripts that must run as an ordinary user without capabilities: root hides every bug we exist to avoid.
# Gives: as_user COMMAND..., $run_user, $run_home, $source_dir (a checkout that user can read, with a build/ it can write).
# Started as root it picks $SLIPWAY_USER, else $SUDO_USER, else makes "slipway"; otherwise it is the caller.
# Must not: be needed by anything that a user installs.

ordinary_user_setup() { # CHECKOUT
    source_dir=$1
    if [ "$(id -u)" != 0 ]; then
        run_user=$(id -un)
        run_home=$HOME
        as_user() { "$@"; }
        return
    fi
    run_user=${SLIPWAY_USER:-${SUDO_USER:-slipway}}
    [ "$run_user" != root ] || run_user=slipway
    if ! getent passwd "$run_user" >/dev/null; then
        echo "making the ordinary user '$run_user'"
        useradd --create-home --shell /bin/bash --groups users "$run_user" # a second group: files open through it
    fi
    run_home=$(getent passwd "$run_user" | cut -d: -f6)
    usable_fuse
    as_user() {
        # The builds of the tests and of the quickstart differ in -Werror alone: let them share the compiler's cache.
        local keep=(CCACHE_IGNOREOPTIONS=-Werror) name
        for name in CI TERM LANG http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY CCACHE_DIR \
            SLIPWAY_STORE SLIPWAY_CONFORMANCE SLIPWAY_SID_ROOT SLIPWAY_SID_MIRROR; do
            [ -z "${!name:-}" ] || keep+=("$name=${!name}")
        done
        setpriv --reuid "$run_user" --regid "$(id -g "$run_user")" --init-groups --inh-caps=-all \
            --bounding-set=-all env -i HOME="$run_home" USER="$run_user" LOGNAME="$run_user" \
            PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin "${keep[@]}" "$@"
    }
    readable_checkout
    mkdir -p "$source_dir/build"
    chown -R "$run_user:" "$source_dir/build" # whoever built here before
}

# Every distribution ships /dev/fuse with mode 0666; a bare virtual machine or container may not.
usable_fuse() {
    [ -e /dev/fuse ] || mknod /dev/fuse c 10 229 || true
    [ ! -e /dev/fuse ] || [ "$(stat -c %a /dev/fuse)" = 666 ] || chmod 0666 /dev/fuse
}

# A checkout below /root cannot be read by anybody else: work in a copy then.
readable_checkout() {
    if setpriv --reuid "$run_user" --regid "$(id -g "$run_user")" --clear-groups \
        test -r "$source_dir/CMakeLists.txt" 2>/dev/null; then
        return
    fi
    local copy="$run_home/.cache/slipway-checkout"
    echo "$run_user cannot read $source_dir: working in a copy, $copy"
    [ -z "${SLIPWAY_CONFORMANCE:-}" ] && [ -d "$source_dir/../shared/conformance" ] &&
        cp -rT "$source_dir/../shared/conformance" "$copy-conformance" && export SLIPWAY_CONFORMANCE="$copy-conformance"
    mkdir -p "$copy"
    tar -C "$source_dir" --exclude=./build --exclude=./.git -cf - . | tar -C "$copy" -xf -
    chown -R "$run_user:" "$run_home/.cache"
    source_dir=$copy
}
