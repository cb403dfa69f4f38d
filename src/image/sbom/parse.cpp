// Understands dpkg's, apk's and Python's records of what is installed.
// Must not: fail for a record that it cannot understand: that one is left out.
#include "parse.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>

#include "slipway/base/text.hpp"

namespace slipway::image {
namespace {

using Fields = std::map<std::string, std::string, std::less<>>;

std::string_view trimmed(std::string_view text) {
    const size_t first = text.find_first_not_of(" \t\r");
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

/// Call `take` with the fields of each paragraph: "Name: value" lines up to an empty one. Lines
/// that go on (they begin with a space) are not needed here.
void each_paragraph(std::string_view text, const std::function<void(const Fields&)>& take) {
    Fields fields;
    while (true) {
        const size_t end = text.find('\n');
        const std::string_view line = text.substr(0, end);
        const size_t colon = line.find(':');
        if (trimmed(line).empty()) {
            if (!fields.empty()) take(fields);
            fields.clear();
        } else if (line[0] != ' ' && line[0] != '\t' && colon != std::string_view::npos) {
            fields.try_emplace(std::string(line.substr(0, colon)), trimmed(line.substr(colon + 1)));
        }
        if (end == std::string_view::npos) break;
        text.remove_prefix(end + 1);
    }
    if (!fields.empty()) take(fields);
}

/// What a record calls the facts about a package; "" for what it does not tell.
struct FieldNames {
    SoftwarePackage::Kind kind;
    const char *name, *version, *architecture, *supplier, *license, *source;
};
constexpr FieldNames kDpkg = {
    SoftwarePackage::Kind::deb, "Package", "Version", "Architecture", "Maintainer", "", "Source"};
constexpr FieldNames kApk = {SoftwarePackage::Kind::apk, "P", "V", "A", "m", "L", "o"};
constexpr FieldNames kPython = {
    SoftwarePackage::Kind::pypi, "Name", "Version", "", "Author", "License", ""};

std::string field(const Fields& fields, std::string_view name) {
    const auto found = name.empty() ? fields.end() : fields.find(name);
    return found == fields.end() ? "" : found->second;
}

/// The packages of a text, a paragraph each; without a name or a version it is none. `complete`
/// adds what only one kind of record has, and returns false to leave the package out.
Packages read_packages(std::string_view text, const std::string& path, const FieldNames& names,
                       const std::function<bool(const Fields&, SoftwarePackage&)>& complete) {
    Packages packages;
    each_paragraph(text, [&](const Fields& fields) {
        SoftwarePackage package;
        package.kind = names.kind;
        package.name = field(fields, names.name);
        package.version = field(fields, names.version);
        package.architecture = field(fields, names.architecture);
        package.supplier = field(fields, names.supplier);
        package.license = field(fields, names.license);
        package.source = field(fields, names.source);
        package.found_in = path;
        if (!package.name.empty() && !package.version.empty() && complete(fields, package))
            packages.push_back(std::move(package));
    });
    return packages;
}

}  // namespace

Packages parse_dpkg(const std::string& text, const std::string& path) {
    return read_packages(text, path, kDpkg, [](const Fields& fields, SoftwarePackage& package) {
        // "name (version)" where the source's version is another.
        package.source.resize(std::min(package.source.size(), package.source.find(' ')));
        const std::string status = field(fields, "Status");
        // status.d, of images without dpkg, has no such line.
        return status.empty() || status.ends_with(" installed");
    });
}

Packages parse_apk(const std::string& text, const std::string& path) {
    return read_packages(text, path, kApk, [](const Fields&, SoftwarePackage& package) {
        if (package.source == package.name) package.source.clear();
        return true;
    });
}

Packages parse_python(const std::string& text, const std::string& path) {
    // The description that follows the first empty line is anybody's text.
    const size_t end = std::min(text.find("\n\n"), text.find("\n\r\n"));
    return read_packages(std::string_view(text).substr(0, end), path, kPython,
                         [](const Fields& fields, SoftwarePackage& package) {
                             const std::string spdx = field(fields, "License-Expression");
                             package.license_is_spdx = !spdx.empty();
                             if (!spdx.empty()) package.license = spdx;
                             return true;
                         });
}

}  // namespace slipway::image
