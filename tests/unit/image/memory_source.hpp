// An EntrySource made by hand, for tests of what consumes entries.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "slipway/image/entry.hpp"

namespace slipway::image::test {

struct Member {
    Entry entry;
    std::string data;
};

inline Member file(const std::string& path, std::string data, uint32_t mode = 0644) {
    Member member;
    member.entry.path = path;
    member.entry.mode = mode;
    member.entry.mtime = 1700000000;
    member.entry.size_bytes = data.size();
    member.data = std::move(data);
    return member;
}

inline Member special(EntryType type, const std::string& path, const std::string& target = {},
                      uint32_t mode = 0755) {
    Member member = file(path, {}, mode);
    member.entry.type = type;
    member.entry.link_target = target;
    return member;
}

inline Member dir(const std::string& path, uint32_t mode = 0755) {
    return special(EntryType::directory, path, {}, mode);
}
inline Member soft_link(const std::string& path, const std::string& target) {
    return special(EntryType::symlink, path, target, 0777);
}
inline Member hard_link(const std::string& path, const std::string& target) {
    return special(EntryType::hardlink, path, target);
}

using Members = std::vector<Member>;

class MemorySource : public EntrySource {
 public:
    explicit MemorySource(Members members) : members_(std::move(members)) {}
    bool next(Entry& entry) override {
        position_ = 0;
        if (next_ == members_.size()) return false;
        entry = members_[next_++].entry;
        return true;
    }
    size_t read(void* data, size_t size_bytes) override {
        const std::string& from = members_[next_ - 1].data;
        // In uneven pieces, as a decompressed stream comes.
        const size_t part = std::min({size_bytes, from.size() - position_, size_t{10007}});
        std::memcpy(data, from.data() + position_, part);
        position_ += part;
        return part;
    }

 private:
    Members members_;
    size_t next_ = 0, position_ = 0;
};

inline std::function<std::unique_ptr<EntrySource>()> opener(Members members) {
    return [members = std::move(members)] { return std::make_unique<MemorySource>(members); };
}

/// Bytes that do not compress and depend on the seed alone.
inline std::string noise(size_t size_bytes, uint64_t seed) {
    std::string text(size_bytes, '\0');
    for (char& c : text) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        c = static_cast<char>(seed >> 56);
    }
    return text;
}

}  // namespace slipway::image::test
