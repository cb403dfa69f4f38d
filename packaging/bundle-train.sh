#!/usr/bin/env bash
# Make the tree that `slipway build --preload train` puts into images: slipway-train with its own loader, C library
# and both MPIs, under OUT/opt/slipway. It runs in any Linux root of this architecture, whatever its C library.
# Usage: bundle-train.sh PROGRAM PLUGIN_DIRECTORY OUT
# Must not: change the programs it copies from, or need anything but readelf, patchelf, strip and the loader's own --list.
set -euo pipefail

program=$1 plugins=$2 out=$3
prefix=/opt/slipway          # where the tree will be in images: the loader's path must be absolute
tree=$out$prefix
lib=$tree/lib

die() {
    printf 'bundle-train: error: %s\n' "$*" >&2
    exit 1
}

interpreter() { patchelf --print-interpreter "$program"; }

# closure FILE...: the shared libraries that the files need, all levels, one path a line.
closure() {
    local file
    for file in "$@"; do
        "$loader" --list "$file" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// {print $3}' || true
        if "$loader" --list "$file" 2>/dev/null | grep -q 'not found'; then
            die "$file needs a library that is not installed: $("$loader" --list "$file" | grep 'not found' | head -n 1)"
        fi
    done | sort -u
}

copy_library() { # FILE: under its soname, stripped
    local file name
    file=$(readlink -f "$1")
    name=$(patchelf --print-soname "$file" 2>/dev/null || true)
    name=${name:-$(basename "$1")}
    [ -e "$lib/$name" ] && return
    install -m 0755 "$file" "$lib/$name"
}

copy_components() { # DIRECTORY GLOB TARGET [EXCLUDED...]: plugins, but not those named
    local from=$1 glob=$2 to=$3 file name
    shift 3
    [ -d "$from" ] || return 0
    mkdir -p "$to"
    for file in "$from"/$glob; do
        [ -f "$file" ] || continue
        name=$(basename "$file")
        for excluded in "$@"; do
            # shellcheck disable=SC2053
            [[ $name == $excluded ]] && continue 2
        done
        install -m 0755 "$(readlink -f "$file")" "$to/$name"
    done
}

# What a training rank never uses: launching, tools, files, OpenSHMEM, fault-tolerant logging, and fabrics whose
# libraries are large and old (openib, PSM); UCX and libfabric carry today's fabrics.
unused_openmpi=(mca_plm_* mca_ras_* mca_rmaps_* mca_odls_* mca_filem_* mca_iof_hnp* mca_iof_orted* mca_errmgr_default_hnp*
    mca_errmgr_default_orted* mca_ess_hnp* mca_ess_slurm* mca_ess_tool* mca_state_hnp* mca_state_orted* mca_state_novm*
    mca_rtc_* mca_regx_* mca_fs_* mca_fbtl_* mca_fcoll_* mca_io_* mca_sharedfp_* mca_scoll_* mca_spml_* mca_sshmem_*
    mca_memheap_* mca_atomic_* mca_vprotocol_* mca_*_monitoring* mca_btl_openib* mca_mtl_psm* mca_crs_* mca_pmix_flux*
    mca_schizo_flux* mca_topo_treematch*)

copy_openmpi() {
    local libmpi base pmix
    [ -e "$plugins/libslipway-mpi-openmpi.so" ] || return 0
    libmpi=$(closure "$plugins/libslipway-mpi-openmpi.so" | grep '/libmpi\.so')
    base=$(dirname "$(readlink -f "$libmpi")")
    local from
    for from in "$base/openmpi3" "$base/openmpi" "$base/openmpi/lib/openmpi3"; do
        [ -d "$from" ] && compgen -G "$from/mca_*.so" >/dev/null && break
        from=
    done
    [ -n "$from" ] || die "cannot find the components of Open MPI beside $libmpi"
    copy_components "$from" 'mca_*.so' "$lib/openmpi" "${unused_openmpi[@]}"
    for pmix in "$(dirname "$libmpi")/pmix2/lib/pmix" "$(dirname "$libmpi")/pmix"; do
        copy_components "$pmix" '*.so' "$lib/pmix"
    done
    mkdir -p "$tree/share/openmpi" "$tree/share/pmix" "$tree/etc"
    cp /usr/share/openmpi/help-{mpi-*,mca-*,opal-*,orte-*,btl-*,ess-*}.txt "$tree/share/openmpi/" 2>/dev/null || true
    : >"$tree/etc/openmpi-mca-params.conf"
    : >"$tree/etc/pmix-mca-params.conf"
}

copy_fabrics() {
    local directory
    directory=$(dirname "$(closure "$plugins"/libslipway-mpi-*.so | grep -m 1 '/libuct\.so' || echo /nowhere/x)")
    copy_components "$directory/ucx" 'libuct_*.so.0' "$lib/ucx" 'libuct_cuda*' 'libuct_rocm*'
    copy_components "$directory/hwloc" 'hwloc_*.so' "$lib/hwloc" 'hwloc_cuda*' 'hwloc_nvml*' 'hwloc_opencl*' 'hwloc_gl*' 'hwloc_rsmi*' 'hwloc_xml_libxml*'
}

# Everything finds everything in PREFIX/lib, before the image's own cache: DT_RPATH beats ld.so.cache and, unlike
# DT_RUNPATH, holds for the libraries that libraries need.
relocate() {
    local file
    while IFS= read -r file; do
        case "$(basename "$file")" in ld-linux* | ld64*) continue ;; esac
        strip --strip-unneeded "$file" 2>/dev/null || true
        patchelf --force-rpath --set-rpath "$prefix/lib" "$file"
    done < <(find "$tree" -type f \( -name '*.so' -o -name '*.so.*' \))
    strip "$tree/bin/slipway-train"
    patchelf --set-interpreter "$prefix/lib/$(basename "$loader")" --force-rpath --set-rpath "$prefix/lib" "$tree/bin/slipway-train"
}

# A library that a file needs and the tree lacks would be taken from the image, whatever version that is.
verify() {
    local file needed missing=
    while IFS= read -r file; do
        while IFS= read -r needed; do
            [ -e "$lib/$needed" ] || missing+=" $needed (for $(basename "$file"))"
        done < <(patchelf --print-needed "$file")
    done < <(find "$tree" -type f \( -name '*.so' -o -name '*.so.*' -o -name slipway-train \) ! -name 'ld-linux*')
    [ -z "$missing" ] || die "the bundle is not complete:$missing"
}

[ -x "$program" ] || die "no program $program"
loader=$(interpreter)
rm -rf "$out"
mkdir -p "$tree/bin" "$lib"
install -m 0755 "$program" "$tree/bin/slipway-train"
for plugin in "$plugins"/libslipway-mpi-*.so; do install -m 0755 "$plugin" "$lib/"; done
copy_openmpi
copy_fabrics
mapfile -t parts < <(find "$tree" -type f -name '*.so*')
mapfile -t libraries < <(closure "$program" "${parts[@]}")
for library in "${libraries[@]}"; do copy_library "$library"; done
install -m 0755 "$(readlink -f "$loader")" "$lib/$(basename "$loader")"
# The C library's parts that are opened by name at run time: user and host look-ups.
for name in libnss_files.so.2 libnss_dns.so.2 libresolv.so.2; do
    path=$(dirname "$(printf '%s\n' "${libraries[@]}" | grep -m 1 '/libc\.so\.6')")/$name
    if [ -e "$path" ]; then copy_library "$path"; fi
done
relocate
verify
printf 'bundle-train: %s in %s\n' "$(du -sh "$tree" | cut -f1)" "$tree"
