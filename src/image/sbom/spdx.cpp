// Words an inventory as an SPDX 2.3 document. Source: spdx.github.io/spdx-spec/v2.3, package-url.
// Must not: claim a licence as concluded; what a package says of itself is passed on as that.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <set>

#include "slipway/base/digest.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/json.hpp"
#include "slipway/base/path.hpp"
#include "slipway/image/sbom.hpp"

namespace slipway::image {
namespace {

using Kind = SoftwarePackage::Kind;

/// Of a package URL: everything but letters, digits and ".-_~" as %XX.
std::string encoded(std::string_view text) {
    std::string out;
    for (const char c : text) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           (c >= '0' && c <= '9') || std::strchr(".-_~", c) != nullptr;
        out += plain && c != '\0' ? std::string(1, c)
                                  : fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    return out;
}

/// PEP 503: runs of "-", "_" and "." are one "-", in lower case.
std::string python_name(const std::string& name) {
    std::string out;
    for (const char c : name) {
        const bool joint = c == '-' || c == '_' || c == '.';
        if (joint && (out.empty() || out.back() != '-')) out += '-';
        if (!joint) out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
    return out;
}

std::string package_url(const SoftwarePackage& package, const SoftwareInventory& inventory) {
    if (package.kind == Kind::pypi)
        return fmt::format("pkg:pypi/{}@{}", encoded(python_name(package.name)),
                           encoded(package.version));
    const char* type = package.kind == Kind::deb   ? "deb"
                       : package.kind == Kind::rpm ? "rpm"
                                                   : "apk";
    const char* usual = package.kind == Kind::deb   ? "debian"
                        : package.kind == Kind::rpm ? "redhat"
                                                    : "alpine";
    std::string version = package.version, qualifiers;
    const auto add = [&](const char* key, const std::string& value) {
        if (value.empty()) return;
        qualifiers += qualifiers.empty() ? "?" : "&";
        qualifiers += std::string(key) + "=" + encoded(value);
    };
    add("arch", package.architecture);
    if (!inventory.os_id.empty() && !inventory.os_version.empty())
        add("distro", inventory.os_id + "-" + inventory.os_version);
    if (const size_t colon = version.find(':');
        package.kind == Kind::rpm && colon != std::string::npos) {
        add("epoch", version.substr(0, colon));
        version = version.substr(colon + 1);
    }
    return fmt::format("pkg:{}/{}/{}@{}{}", type,
                       inventory.os_id.empty() ? usual : encoded(inventory.os_id),
                       encoded(package.name), encoded(version), qualifiers);
}

/// SPDX ids are letters, digits, "." and "-"; two names that become the same get a number.
class Ids {
 public:
    std::string make(const std::string& text) {
        std::string id = "SPDXRef-";
        for (const char c : text) {
            const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                               (c >= '0' && c <= '9') || c == '.' || c == '-';
            id += plain ? c : '-';
        }
        std::string unique = id;
        for (int number = 2; !used_.insert(unique).second; ++number)
            unique = fmt::format("{}-{}", id, number);
        return unique;
    }

 private:
    std::set<std::string> used_;
};

Json package_json(const SoftwarePackage& package, const SoftwareInventory& inventory,
                  const std::string& id) {
    Json json{
        {"SPDXID", id},
        {"name", package.name},
        {"versionInfo", package.version},
        {"downloadLocation", "NOASSERTION"},
        {"filesAnalyzed", false},
        {"licenseConcluded", "NOASSERTION"},
        {"licenseDeclared", package.license_is_spdx ? package.license : "NOASSERTION"},
        {"copyrightText", "NOASSERTION"},
        {"sourceInfo", "found in /" + package.found_in},
        {"externalRefs", Json::array({{{"referenceCategory", "PACKAGE-MANAGER"},
                                       {"referenceType", "purl"},
                                       {"referenceLocator", package_url(package, inventory)}}})}};
    if (!package.supplier.empty()) json["supplier"] = "Organization: " + package.supplier;
    if (!package.license.empty() && !package.license_is_spdx)
        json["licenseComments"] = "the package says: " + package.license;
    if (!package.source.empty())
        json["sourceInfo"] = fmt::format("found in /{}; built from the source package {}",
                                         package.found_in, package.source);
    return json;
}

Json relation(const std::string& from, const char* type, const std::string& to) {
    return {{"spdxElementId", from}, {"relationshipType", type}, {"relatedSpdxElement", to}};
}

class OneFile : public EntrySource {
 public:
    OneFile(std::string path, std::string text, int64_t time)
        : path_(std::move(path)), text_(std::move(text)), time_(time) {}
    bool next(Entry& entry) override {
        entry = Entry{};
        entry.mtime = time_;
        if (step_ == 0) {
            entry.type = EntryType::directory;
            entry.path = std::string(parent_path(path_));
            entry.mode = 0755;
        } else {
            entry.path = path_;
            entry.mode = 0644;
            entry.size_bytes = text_.size();
        }
        return step_++ < 2;
    }
    size_t read(void* data, size_t size_bytes) override {
        const size_t n = step_ == 2 ? std::min(size_bytes, text_.size() - at_) : 0;
        std::memcpy(data, text_.data() + at_, n);
        at_ += n;
        return n;
    }

 private:
    const std::string path_, text_;
    const int64_t time_;
    int step_ = 0;
    size_t at_ = 0;
};

}  // namespace

int64_t document_time() {
    const char* text = std::getenv("SOURCE_DATE_EPOCH");
    if (text == nullptr || *text == '\0') return std::time(nullptr);
    int64_t seconds = 0;
    const char* end = text + std::strlen(text);
    const auto [stop, failure] = std::from_chars(text, end, seconds);
    if (failure != std::errc() || stop != end || seconds < 0)
        throw Error(ErrorKind::usage, fmt::format("SOURCE_DATE_EPOCH={} is no number of seconds",
                                                  slipway::quoted(text)))
            .hint("set it to seconds since 1970, for example: git log -1 --format=%ct");
    return seconds;
}

std::string spdx_document(const SoftwareInventory& inventory, const std::string& image_name,
                          int64_t created) {
    Ids ids;
    const std::string image_id = ids.make("Image");
    Json packages = Json::array({{{"SPDXID", image_id},
                                  {"name", image_name},
                                  {"downloadLocation", "NOASSERTION"},
                                  {"filesAnalyzed", false},
                                  {"licenseConcluded", "NOASSERTION"},
                                  {"licenseDeclared", "NOASSERTION"},
                                  {"copyrightText", "NOASSERTION"},
                                  {"primaryPackagePurpose", "CONTAINER"}}});
    Json relations = Json::array({relation("SPDXRef-DOCUMENT", "DESCRIBES", image_id)});
    constexpr const char* kKinds[] = {"deb", "rpm", "apk", "pypi"};
    for (const auto& package : inventory.packages) {
        const std::string id =
            ids.make(fmt::format("{}-{}-{}", kKinds[static_cast<int>(package.kind)], package.name,
                                 package.architecture));
        packages.push_back(package_json(package, inventory, id));
        relations.push_back(relation(image_id, "CONTAINS", id));
    }
    Json document{{"spdxVersion", "SPDX-2.3"},
                  {"dataLicense", "CC0-1.0"},
                  {"SPDXID", "SPDXRef-DOCUMENT"},
                  {"name", image_name},
                  {"creationInfo",
                   {{"created", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                                            fmt::gmtime(static_cast<std::time_t>(created)))},
                    {"creators", Json::array({"Tool: slipway-" SLIPWAY_VERSION})}}},
                  {"packages", packages},
                  {"relationships", relations}};
    // The namespace must be a document's own: it is made of all the rest.
    document["documentNamespace"] =
        "https://spdx.org/spdxdocs/slipway-" + sha256(to_text(document)).hex();
    return to_text(document, 1) + "\n";
}

LayerOpener sbom_layer(const std::string& document, int64_t time) {
    return [document, time] { return std::make_unique<OneFile>(kSbomPathInImage, document, time); };
}

}  // namespace slipway::image
