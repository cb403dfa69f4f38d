# Bash completion of slipway and slipway-train. Install as share/bash-completion/completions/slipway (and a link
# slipway-train to it). Must not: run slipway, which would cost a process for each press of Tab.

_slipway_values() { # OPTION: what may follow it; fails if the option takes no value
    case $1 in
    --compressor) echo "zstd gzip xz lz4" ;;
    --tls-verify) echo "true false" ;;
    --network) echo "host none" ;;
    --platform) echo "linux/amd64 linux/arm64 linux/arm/v7 linux/ppc64le linux/riscv64 linux/s390x" ;;
    --preload) echo "train" ;;
    --session) echo "none" ;;
    --model) echo "lenet mlp" ;;
    --strategy) echo "allreduce" ;;
    --device) echo "cpu" ;;
    --schedule) echo "cosine constant" ;;
    --transport) echo "auto single openmpi mpich" ;;
    --overlap) echo "auto thread inline end" ;;
    *) return 1 ;;
    esac
}

_slipway_run_options() { # of every subcommand that runs something in an image
    echo "-h --help -b --bind --volume --no-site-mounts --data -w --write --overlay -t --private-tmp --home --stage -e --env --set-env" \
        "--env-file --unset-env --clean-env --keep-env --user -u --uid -g --gid --root" \
        "--no-passwd --hostname --seccomp -c --cd --workdir --timeout --detach-on-kill" \
        "--session --linger --verify -s --storage"
}
_slipway_options() { # SUBCOMMAND ("" for none)
    case $1 in
    "") echo "-h --help -V --version -v --verbose -q --quiet" ;;
    run) echo "$(_slipway_run_options) --entrypoint --explain-env --json --dry-run" ;;
    shell) echo "$(_slipway_run_options) -l --login" ;;
    explain) echo "$(_slipway_run_options) --entrypoint --json" ;;
    "instance start") echo "$(_slipway_run_options) --entrypoint --persist --ready --ready-port --ready-log --ready-timeout" \
            "--stop-signal --log-size" ;;
    "instance list") echo "-h --help --json" ;;
    "instance exec") echo "-h --help -e --env -c --cd --workdir" ;;
    "instance logs") echo "-h --help -f --follow -n --tail" ;;
    "instance stop") echo "-h --help --all --signal --time" ;;
    instance) echo "-h --help" ;;
    run) echo "-h --help -b --bind --volume --no-site-mounts --data -w --write --overlay -t --private-tmp --home --stage -e --env --set-env" \
            "--env-file --unset-env --clean-env --keep-env --explain-env --user -u --uid -g --gid --root" \
            "--no-passwd --hostname --seccomp --entrypoint -c --cd --workdir --timeout --detach-on-kill" \
            "--session --linger -s --storage --dry-run" ;;
    build) echo "-h --help -t --tag -f --file -o --output --build-arg --preload --sbom --target --no-cache --network -s --storage --dry-run" ;;
    bootstrap) echo "-h --help -t --tag --mirror --include --variant -s --storage" ;;
    convert) echo "-h --help --platform --compressor --level --block-size --threads --sbom -s --storage" ;;
    sign) echo "-h --help --key --cert --authfile --tls-verify -s --storage" ;;
    verify) echo "-h --help --key --ca --authfile --tls-verify --json -s --storage" ;;
    sbom) echo "-h --help --format -o --output -s --storage" ;;
    pack) echo "-h --help -o --output --name --data-version --license --source --description --level --block-size" ;;
    fetch) echo "-h --help -o --output --catalogue --list --json -s --storage" ;;
    images | doctor) echo "-h --help --json -s --storage" ;;
    inspect) echo "-h --help --referrers --artifact-type --platform --json -s --storage" ;;
    pull) echo "-h --help -t --tag -o --output --platform --authfile --tls-verify --signatures --no-signatures --json -s --storage" ;;
    push) echo "-h --help --artifact --all-platforms --platform --authfile --tls-verify --no-signatures --json -s --storage" ;;
    rmi) echo "-h --help -s --storage" ;;
    gc) echo "-h --help --keep-cache --keep --dry-run --json -s --storage" ;;
    slipway-train) echo "-h --help --version --model --data --epochs --strategy --device --batch-size --lr --schedule
        --momentum --weight-decay --no-augment --seed --checkpoint --checkpoint-every --stop-after --resume --threads
        --transport --no-shared-memory --overlap --bucket-bytes --json --list-primitives -v --verbose" ;;
    esac
}

_slipway() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} subcommand="" i values
    COMPREPLY=()
    if [[ ${COMP_WORDS[0]##*/} == slipway-train ]]; then
        subcommand=slipway-train
    else
        for ((i = 1; i < COMP_CWORD; ++i)); do
            [[ ${COMP_WORDS[i]} == -* ]] && continue
            subcommand=${COMP_WORDS[i]}
            [[ $subcommand == instance && COMP_CWORD -gt i+1 ]] && subcommand+=" ${COMP_WORDS[i + 1]}"
            break
        done
    fi
    if values=$(_slipway_values "$before"); then
        mapfile -t COMPREPLY < <(compgen -W "$values" -- "$word")
    elif [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_slipway_options "$subcommand")" -- "$word")
    elif [[ $subcommand == instance ]]; then
        mapfile -t COMPREPLY < <(compgen -W "start list exec logs stop" -- "$word")
    elif [[ -z $subcommand ]]; then
        mapfile -t COMPREPLY < <(compgen -W "run build bootstrap convert images inspect rmi gc doctor pull push instance shell explain sign verify sbom pack fetch" -- "$word")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    fi
}
complete -o filenames -o bashdefault -F _slipway slipway slipway-train
