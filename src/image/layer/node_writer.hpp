// Makes the file, directory, link or device that an entry describes. Private to the image room.
#pragma once

#include <string>
#include <vector>

#include "slipway/image/entry.hpp"
#include "slipway/image/layer.hpp"

namespace slipway::image {

class NodeWriter {
 public:
    /// Files get their contents from `source`, whose entry is the one being made; what is lost is
    /// counted in `report`. Both must outlive it.
    NodeWriter(EntrySource& source, UnpackReport& report);

    /// Make an entry, no hard link, at a name of the open directory `parent` that nothing has but,
    /// perhaps, a directory for a directory. A directory gets 0700 for now. False for what cannot
    /// be made: sockets, and devices of an ordinary user.
    bool make(const Entry& entry, int parent, const std::string& name);
    /// Give what is there an entry's owner and attributes, as far as they can be kept.
    void describe(const Entry& entry, int parent, const std::string& name);
    /// Whether the process may give files away, and search directories without permission.
    bool privileged() const { return privileged_; }

 private:
    void write_file(const Entry& entry, int parent, const std::string& name);
    size_t fill();
    bool is_zero(size_t size) const;
    bool make_device(const Entry& entry, int parent, const std::string& name);
    void set_owner(const Entry& entry, int parent, const std::string& name);

    EntrySource& source_;
    UnpackReport& report_;
    bool privileged_;
    std::vector<char> buffer_;
};

}  // namespace slipway::image
