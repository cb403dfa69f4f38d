// Understands dpkg's, apk's and Python's records of what is installed.
// Must not: fail for a record that it cannot understand: that one is left out.
#include "parse.hpp"

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

std::string field(const Fields& fields, std::string_view name) {
    const auto found = fields.find(name);
    return found == fields.end() ? "" : found->second;
}

}  // namespace

Packages parse_dpkg(const std::string& text, const std::string& path) {
    Packages packages;
    each_paragraph(text, [&](const Fields& fields) {
        const std::string status = field(fields, "Status");
        // status.d, of images without dpkg, has no such line.
        if (!status.empty() && !status.ends_with(" installed")) return;
        SoftwarePackage package;
        package.kind = SoftwarePackage::Kind::deb;
        package.name = field(fields, "Package");
        package.version = field(fields, "Version");
        package.architecture = field(fields, "Architecture");
        package.supplier = field(fields, "Maintainer");
        package.source = field(fields, "Source");
        package.source.resize(std::min(package.source.size(), package.source.find(' ')));
        package.found_in = path;
        if (!package.name.empty() && !package.version.empty())
            packages.push_back(std::move(package));
    });
    return packages;
}

Packages parse_apk(const std::string& text, const std::string& path) {
    Packages packages;
    each_paragraph(text, [&](const Fields& fields) {
        SoftwarePackage package;
        package.kind = SoftwarePackage::Kind::apk;
        package.name = field(fields, "P");
        package.version = field(fields, "V");
        package.architecture = field(fields, "A");
        package.supplier = field(fields, "m");
        package.license = field(fields, "L");
        package.source = field(fields, "o");
        if (package.source == package.name) package.source.clear();
        package.found_in = path;
        if (!package.name.empty() && !package.version.empty())
            packages.push_back(std::move(package));
    });
    return packages;
}

Packages parse_python(const std::string& text, const std::string& path) {
    Packages packages;
    // The description that follows the first empty line is anybody's text.
    const size_t end = std::min(text.find("\n\n"), text.find("\n\r\n"));
    each_paragraph(std::string_view(text).substr(0, end), [&](const Fields& fields) {
        SoftwarePackage package;
        package.kind = SoftwarePackage::Kind::pypi;
        package.name = field(fields, "Name");
        package.version = field(fields, "Version");
        package.license = field(fields, "License-Expression");
        package.license_is_spdx = !package.license.empty();
        if (package.license.empty()) package.license = field(fields, "License");
        package.supplier = field(fields, "Author");
        package.found_in = path;
        if (!package.name.empty() && !package.version.empty())
            packages.push_back(std::move(package));
    });
    return packages;
}

}  // namespace slipway::image
