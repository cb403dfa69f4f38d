// Finds the databases of package managers in a stream of layers.
// Must not: keep any other file's contents.
#include <fmt/format.h>

#include <map>

#include "../layer/tree_source.hpp"
#include "../oci/model.hpp"
#include "parse.hpp"
#include "slipway/base/error.hpp"
#include "slipway/image/artifact.hpp"
#include "slipway/image/convert.hpp"

namespace slipway::image {
namespace {

constexpr uint64_t kLargestText = 64u << 20, kLargestDatabase = 1u << 30;

enum class Source { none, dpkg, apk, python, rpm_sqlite, rpm_other, os_release };

Source classify(std::string_view path) {
    const auto ends = [&](std::string_view end) { return path.ends_with(end); };
    if (path == "var/lib/dpkg/status" || path.starts_with("var/lib/dpkg/status.d/"))
        return ends(".md5sums") ? Source::none : Source::dpkg;
    if (path == "lib/apk/db/installed" || path == "usr/lib/apk/db/installed") return Source::apk;
    if (ends(".dist-info/METADATA") || ends(".egg-info/PKG-INFO") || ends(".egg-info"))
        return Source::python;
    if (path == "etc/os-release" || path == "usr/lib/os-release") return Source::os_release;
    const bool of_rpm =
        path.starts_with("var/lib/rpm/") || path.starts_with("usr/lib/sysimage/rpm/");
    if (of_rpm && ends("/rpmdb.sqlite")) return Source::rpm_sqlite;
    if (of_rpm && (ends("/Packages") || ends("/Packages.db"))) return Source::rpm_other;
    return Source::none;
}

using Files = std::map<std::string, std::string>;  // contents by path

void remove_below(Files& files, const std::string& path) {
    auto at = files.lower_bound(path);
    while (at != files.end() && at->first.starts_with(path)) {
        const bool inside =
            at->first.size() == path.size() || path.empty() || at->first[path.size()] == '/';
        at = inside ? files.erase(at) : std::next(at);
    }
}

std::string take(EntrySource& source, const Entry& entry, Source kind) {
    if (entry.size_bytes > (kind == Source::rpm_sqlite ? kLargestDatabase : kLargestText))
        throw Error(ErrorKind::invalid_image,
                    fmt::format("{} in the image has {} bytes: that is no list of packages",
                                slipway::quoted(entry.path), entry.size_bytes));
    std::string contents;
    if (kind == Source::rpm_other) return contents;
    std::string buffer(1 << 16, '\0');
    while (const size_t n = source.read(buffer.data(), buffer.size()))
        contents.append(buffer, 0, n);
    return contents;
}

/// Apply one layer: what it removes is removed from the layers below it, wherever it says so.
void apply_layer(EntrySource& source, Files& files) {
    Files fresh;
    Entry entry;
    while (source.next(entry)) {
        const Whiteout whiteout = classify_whiteout(entry.path);
        if (whiteout.kind != Whiteout::Kind::none) {
            remove_below(files, whiteout.path);
            continue;
        }
        if (entry.type != EntryType::directory) remove_below(files, entry.path);
        const Source kind = classify(entry.path);
        if (kind != Source::none && entry.type == EntryType::file)
            fresh[entry.path] = take(source, entry, kind);
    }
    for (auto& [path, contents] : fresh) files[path] = std::move(contents);
}

void read_os_release(const std::string& text, SoftwareInventory& inventory) {
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find('\n', at), text.size());
        const std::string line = text.substr(at, end - at);
        at = end + 1;
        const size_t equals = line.find('=');
        if (equals == std::string::npos) continue;
        std::string value = line.substr(equals + 1);
        if (value.size() > 1 && (value[0] == '"' || value[0] == '\'') && value.back() == value[0])
            value = value.substr(1, value.size() - 2);
        if (line.starts_with("ID=")) inventory.os_id = value;
        if (line.starts_with("VERSION_ID=")) inventory.os_version = value;
    }
}

Packages packages_of(const std::string& path, std::string& contents, SoftwareInventory& inventory) {
    switch (classify(path)) {
        case Source::dpkg:
            return parse_dpkg(contents, path);
        case Source::apk:
            return parse_apk(contents, path);
        case Source::python:
            return parse_python(contents, path);
        case Source::os_release:
            read_os_release(contents, inventory);
            return {};
        case Source::rpm_sqlite:
            try {
                return read_rpm_database(std::move(contents), path);
            } catch (const Error& error) {
                inventory.warnings.push_back(
                    fmt::format("the packages of rpm are missing: {}{}{}", error.message(),
                                error.hint().empty() ? "" : "; ", error.hint()));
            }
            return {};
        case Source::rpm_other:
            inventory.warnings.push_back(
                fmt::format("the packages of rpm are missing: {} is a database of an older rpm, "
                            "which is not read; only rpmdb.sqlite is",
                            slipway::quoted(path)));
            return {};
        case Source::none:
            break;
    }
    return {};
}

}  // namespace

SoftwareInventory read_inventory(const std::vector<LayerOpener>& layers) {
    Files files;
    for (const auto& open : layers) apply_layer(*open(), files);
    SoftwareInventory inventory;
    for (auto& [path, contents] : files)
        for (auto& package : packages_of(path, contents, inventory))
            inventory.packages.push_back(std::move(package));
    auto& packages = inventory.packages;
    std::sort(packages.begin(), packages.end());
    packages.erase(std::unique(packages.begin(), packages.end()), packages.end());
    return inventory;
}

SoftwareInventory read_inventory(const std::string& reference, const Store& store) {
    const ImageRef ref = parse_image_ref(reference);
    std::vector<LayerOpener> layers;
    if (ref.kind == RefKind::directory || ref.kind == RefKind::squashfs ||
        ref.kind == RefKind::sif || ref.kind == RefKind::host) {
        ImageRef tree = ref;
        if (ref.kind == RefKind::host)
            throw Error(ErrorKind::unsupported, "the host itself is no image")
                .hint("name an image; of the host: dpkg-query -W, rpm -qa");
        layers.push_back(open_tree_image(tree).open);
        return read_inventory(layers);
    }
    const Content content = open_content(ref, store);
    if (content.artifact) {
        layers.push_back(open_tree_image(file_of(*content.artifact, ref, store)).open);
        return read_inventory(layers);
    }
    const OciImage& image = *content.image;
    for (size_t i = 0; i < image.layers.size(); ++i)
        layers.push_back([&image, i] { return open_image_layer(image, i); });
    return read_inventory(layers);
}

}  // namespace slipway::image
