// Reads catalogues of datasets: directories of JSON files, one a dataset.
// Must not: fetch anything.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/json.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/image/dataset.hpp"

namespace slipway::image {
namespace {

using Unpack = CatalogueFile::Unpack;

Error wrong(const std::string& file, const std::string& what) {
    return Error(ErrorKind::usage,
                 fmt::format("the catalogue entry {} {}", slipway::quoted(file), what))
        .hint("see: man slipway-fetch, or docs/how-to/datasets.md");
}

void check_members(const Json& object, const std::set<std::string>& known, const std::string& file,
                   const std::string& where) {
    for (const auto& [key, value] : object.items())
        if (!known.contains(key))
            throw wrong(file,
                        fmt::format("has an unknown member {}{}", slipway::quoted(key), where));
}

std::string text_of(const Json& object, const char* key, const std::string& file) {
    return json_string(object, key, slipway::quoted(file), {}, ErrorKind::usage);
}

std::string sum_of(const Json& object, const char* key, size_t digits, const std::string& file) {
    std::string sum = text_of(object, key, file);
    std::transform(sum.begin(), sum.end(), sum.begin(),
                   [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c; });
    const bool hex = sum.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!sum.empty() && (sum.size() != digits || !hex))
        throw wrong(file, fmt::format("has a {} that is not {} hexadecimal digits: {}", key, digits,
                                      slipway::quoted(sum)));
    return sum;
}

Unpack unpack_of(const std::string& text, const std::string& file) {
    if (text.empty() || text == "none") return Unpack::none;
    if (text == "tar") return Unpack::tar;
    if (text == "zip") return Unpack::zip;
    if (text == "gzip") return Unpack::gzip;
    throw wrong(file, fmt::format("wants to unpack {}; none, gzip, tar and zip are possible",
                                  slipway::quoted(text)));
}

/// The last part of a URL's path, without what a packer added.
std::string name_in(const std::string& url, Unpack unpack) {
    std::string name(base_name(url.substr(0, url.find_first_of("?#"))));
    if (unpack == Unpack::gzip && name.ends_with(".gz")) name.resize(name.size() - 3);
    return name;
}

void check_url(const std::string& url, const std::string& file) {
    for (const char* scheme : {"http://", "https://", "file:///"})
        if (url.starts_with(scheme) && url.size() > std::string_view(scheme).size()) return;
    throw wrong(file, fmt::format("has the URL {}, which is none of http://, https:// and file:///",
                                  slipway::quoted(url)));
}

CatalogueFile file_of(const Json& object, const std::string& file) {
    if (!object.is_object()) throw wrong(file, "has a file that is no object");
    check_members(object, {"url", "urls", "path", "md5", "sha256", "size", "unpack"}, file,
                  " of a file");
    CatalogueFile item;
    item.urls = json_strings(object, "urls", slipway::quoted(file), ErrorKind::usage);
    if (const auto url = text_of(object, "url", file); !url.empty())
        item.urls.insert(item.urls.begin(), url);
    if (item.urls.empty()) throw wrong(file, "has a file without a \"url\"");
    for (const auto& url : item.urls) check_url(url, file);
    item.unpack = unpack_of(text_of(object, "unpack", file), file);
    item.md5 = sum_of(object, "md5", 32, file);
    item.sha256 = sum_of(object, "sha256", 64, file);
    if (item.md5.empty() && item.sha256.empty())
        throw wrong(
            file, fmt::format("gives neither sha256 nor md5 of {}", slipway::quoted(item.urls[0])));
    if (const auto size = object.find("size"); size != object.end()) {
        if (!size->is_number_unsigned()) throw wrong(file, "has a \"size\" that is no number");
        item.size_bytes = size->get<uint64_t>();
    }
    const bool archive = item.unpack == Unpack::tar || item.unpack == Unpack::zip;
    item.path = text_of(object, "path", file);
    if (item.path.empty() && !archive) item.path = name_in(item.urls[0], item.unpack);
    item.path = clean_member_path(item.path);
    if (item.path.empty() && !archive) throw wrong(file, "has a file without a \"path\"");
    return item;
}

/// Names that begin alike, for a misspelt one.
std::string near_names(const std::string& name, const std::vector<CatalogueEntry>& entries) {
    std::string near, all;
    for (const auto& entry : entries) {
        const std::string& other = entry.about.name;
        all += (all.empty() ? "" : ", ") + other;
        if (!name.empty() && other.starts_with(name.substr(0, 2)))
            near += (near.empty() ? "" : ", ") + other;
    }
    return near.empty() ? all : near;
}

}  // namespace

CatalogueEntry parse_catalogue_entry(const std::string& text, const std::string& file) {
    const Json object = parse_json(text, file, ErrorKind::usage);
    if (!object.is_object()) throw wrong(file, "is no object");
    check_members(object, {"name", "version", "license", "source", "description", "files"}, file,
                  "");
    CatalogueEntry entry;
    entry.origin = file;
    entry.about = {text_of(object, "name", file), text_of(object, "version", file),
                   text_of(object, "license", file), text_of(object, "source", file),
                   text_of(object, "description", file)};
    if (entry.about.name.empty()) throw wrong(file, "has no \"name\"");
    const auto files = object.find("files");
    if (files == object.end() || !files->is_array() || files->empty())
        throw wrong(file, "has no \"files\"");
    for (const auto& item : *files) entry.files.push_back(file_of(item, file));
    if (entry.about.source.empty()) entry.about.source = entry.files[0].urls[0];
    return entry;
}

std::vector<CatalogueEntry> read_catalogue(const std::string& catalogue,
                                           std::vector<std::string>& warnings) {
    if (catalogue.empty())
        throw Error(ErrorKind::usage, "no catalogue of datasets is configured")
            .hint(
                "set \"catalogue\" in config.json, or SLIPWAY_CATALOGUE, to a directory of "
                "entries; or name an entry's file");
    std::vector<CatalogueEntry> entries;
    const UniqueFd directory = sys::open(catalogue, O_RDONLY | O_DIRECTORY);
    for (const auto& name : sys::list_directory(directory.get(), catalogue)) {
        if (!name.ends_with(".json")) continue;
        const std::string file = join_path(catalogue, name);
        try {
            entries.push_back(parse_catalogue_entry(read_file(file), file));
        } catch (const Error& error) {
            warnings.push_back(error.message());
        }
    }
    std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
        return std::tie(a.about.name, a.about.version) < std::tie(b.about.name, b.about.version);
    });
    return entries;
}

CatalogueEntry find_catalogue_entry(const std::string& name, const std::string& catalogue) {
    if (name.find('/') != std::string::npos || name.ends_with(".json"))
        return parse_catalogue_entry(read_file(name), name);
    std::vector<std::string> warnings;
    const auto entries = read_catalogue(catalogue, warnings);
    const size_t at = name.find('@');
    std::vector<const CatalogueEntry*> found;
    for (const auto& entry : entries)
        if (entry.about.name == name.substr(0, at) &&
            (at == std::string::npos || entry.about.version == name.substr(at + 1)))
            found.push_back(&entry);
    if (found.size() == 1) return *found[0];
    if (found.empty()) {
        Error error(ErrorKind::not_found,
                    fmt::format("the catalogue {} has no dataset {}", slipway::quoted(catalogue),
                                slipway::quoted(name)));
        for (const auto& warning : warnings) error.note(warning);
        const std::string near = near_names(name, entries);
        throw error.hint(near.empty() ? "slipway fetch --list" : "choose among: " + near);
    }
    std::string versions;
    for (const auto* entry : found)
        versions += (versions.empty() ? "" : ", ") + name + "@" + entry->about.version;
    throw Error(ErrorKind::usage, fmt::format("there are several versions of {}", name))
        .hint("choose among: " + versions);
}

}  // namespace slipway::image
