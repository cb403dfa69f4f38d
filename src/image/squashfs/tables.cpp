// Tables of the output, written with libsquashfs.
// Must not: use its write_inode for files (their block lists would lie on the stack), nor its data
// writers.
#include "tables.hpp"

#include <endian.h>
#include <fmt/format.h>
#include <sqfs/dir_writer.h>
#include <sqfs/frag_table.h>
#include <sqfs/id_table.h>
#include <sqfs/inode.h>
#include <sqfs/meta_writer.h>
#include <sqfs/super.h>
#include <sqfs/xattr_writer.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <set>

#include "compressor.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"

namespace slipway::image::squashfs {
namespace {

constexpr uint32_t kNoXattr = 0xffffffff;
constexpr size_t kMostIds = 65535;  // 65,536 would be written as a count of 0
constexpr size_t kLargestXattr = 65536;
constexpr size_t kPadding = 4096;  // loop devices and the kernel read whole pages

struct FreeInode {
    void operator()(sqfs_inode_generic_t* inode) const { std::free(inode); }
};
using InodePtr = std::unique_ptr<sqfs_inode_generic_t, FreeInode>;

uint16_t type_bits(EntryType type) {
    switch (type) {
        case EntryType::directory:
            return S_IFDIR;
        case EntryType::symlink:
            return S_IFLNK;
        case EntryType::char_device:
            return S_IFCHR;
        case EntryType::block_device:
            return S_IFBLK;
        case EntryType::fifo:
            return S_IFIFO;
        case EntryType::socket:
            return S_IFSOCK;
        default:
            return S_IFREG;
    }
}

/// The kernel's huge encoding of a device number (new_encode_dev), as mksquashfs stores it.
uint32_t encode_device(uint32_t major, uint32_t minor) {
    return (minor & 0xff) | (major << 8) | ((minor & ~0xffu) << 12);
}

class TableWriter {
 public:
    TableWriter(OutputFile& output, const TableInput& input, std::vector<std::string>& warnings)
        : output_(output),
          input_(input),
          warnings_(warnings),
          compressor_(make_compressor(input.options)),
          inodes_(require_object(sqfs_meta_writer_create(output.sqfs(), compressor_.get(), 0),
                                 "sqfs_meta_writer_create")),
          names_(require_object(sqfs_meta_writer_create(output.sqfs(), compressor_.get(),
                                                        SQFS_META_WRITER_KEEP_IN_MEMORY),
                                "sqfs_meta_writer_create")),
          directories_(require_object(
              sqfs_dir_writer_create(names_.get(), SQFS_DIR_WRITER_CREATE_EXPORT_TABLE),
              "sqfs_dir_writer_create")),
          ids_(require_object(sqfs_id_table_create(0), "sqfs_id_table_create")),
          xattrs_(require_object(sqfs_xattr_writer_create(0), "sqfs_xattr_writer_create")),
          references_(input.live.inodes.size(), kUnwritten),
          config_directory_(find_config_directory(input.tree)) {}

    void write() {
        sqfs_super_t super;
        const uint32_t modified = clamp_time(input_.modified);
        check(sqfs_super_init(&super, input_.options.block_size_bytes, modified,
                              codec_id(input_.options.codec)),
              "sqfs_super_init");
        if (input_.data_start > sizeof(sqfs_super_t)) super.flags |= SQFS_FLAG_COMPRESSOR_OPTIONS;
        super.inode_table_start = output_.size_bytes();
        const Tree& tree = input_.tree;
        list_directory(tree.root());
        write_inode(tree.root());
        check(sqfs_meta_writer_flush(inodes_.get()), "sqfs_meta_writer_flush");
        check(sqfs_meta_writer_flush(names_.get()), "sqfs_meta_writer_flush");
        store_as_is(compressor_, false);
        super.root_inode_ref = references_[tree.node(tree.root()).inode];
        super.inode_count = input_.live.count;
        super.directory_table_start = output_.size_bytes();
        check(sqfs_meta_write_write_to_file(names_.get()), "sqfs_meta_write_write_to_file");
        write_side_tables(super);
        super.bytes_used = output_.size_bytes();
        check(sqfs_super_write(&super, output_.sqfs()), "sqfs_super_write");
        output_.set_size((output_.size_bytes() + kPadding - 1) / kPadding * kPadding);
    }

 private:
    static constexpr uint64_t kUnwritten = ~uint64_t{0};

    static std::optional<NodeId> find_config_directory(const Tree& tree) {
        const auto& children = tree.node(tree.root()).children;
        const auto found = children.find(std::string(parent_path(kConfigPathInImage)));
        if (found == children.end() ||
            tree.inode_of(found->second).entry.type != EntryType::directory)
            return std::nullopt;
        return found->second;
    }

    void check(int result, const char* call) {
        output_.rethrow();
        require_sqfs(result, call);
    }

    void write_side_tables(sqfs_super_t& super) {
        const auto fragments = require_object(sqfs_frag_table_create(0), "sqfs_frag_table_create");
        for (const FragmentBlock& block : input_.placement.fragments)
            check(sqfs_frag_table_append(fragments.get(), block.position, block.word, nullptr),
                  "sqfs_frag_table_append");
        store_as_is(compressor_, true);  // of every start
        check(sqfs_frag_table_write(fragments.get(), output_.sqfs(), &super, compressor_.get()),
              "sqfs_frag_table_write");
        store_as_is(compressor_, false);
        check(sqfs_dir_writer_write_export_table(directories_.get(), output_.sqfs(),
                                                 compressor_.get(), input_.live.count,
                                                 super.root_inode_ref, &super),
              "sqfs_dir_writer_write_export_table");
        store_as_is(compressor_, true);
        check(sqfs_id_table_write(ids_.get(), output_.sqfs(), &super, compressor_.get()),
              "sqfs_id_table_write");
        store_as_is(compressor_, false);
        check(sqfs_xattr_writer_flush(xattrs_.get(), output_.sqfs(), &super, compressor_.get()),
              "sqfs_xattr_writer_flush");
    }

    /// Write everything below a directory and its listing; its own inode is kept for its parent.
    void list_directory(NodeId directory) {
        const Node& node = input_.tree.node(directory);
        for (const auto& [name, child] : node.children)
            if (input_.tree.inode_of(child).entry.type == EntryType::directory &&
                child != config_directory_)
                list_directory(child);
        if (directory == input_.tree.root()) list_start();
        for (const auto& [name, child] : node.children) write_inode(child);
        check(sqfs_dir_writer_begin(directories_.get(), 0), "sqfs_dir_writer_begin");
        for (const auto& [name, child] : node.children) {
            const Inode& inode = input_.tree.inode_of(child);
            const InodeId id = input_.tree.node(child).inode;
            const auto mode =
                static_cast<sqfs_u16>(type_bits(inode.entry.type) | (inode.entry.mode & 07777));
            check(sqfs_dir_writer_add_entry(directories_.get(), name.c_str(),
                                            input_.live.inodes[id].number, references_[id], mode),
                  "sqfs_dir_writer_add_entry");
        }
        check(sqfs_dir_writer_end(directories_.get()), "sqfs_dir_writer_end");
        keep_directory(directory);
    }

    /// What every start reads of the tables comes last and is not compressed: the inodes and names
    /// of the root's directories and of our configuration, a block or two of each table. The lists
    /// of blocks of large files are not among it.
    void list_start() {
        for (const auto& [name, child] : input_.tree.node(input_.tree.root()).children)
            if (input_.tree.inode_of(child).entry.type == EntryType::file) write_inode(child);
        store_as_is(compressor_, true);
        if (config_directory_) list_directory(*config_directory_);
    }

    void keep_directory(NodeId directory) {
        const Node& node = input_.tree.node(directory);
        if (sqfs_dir_writer_get_index_size(directories_.get()) >
            std::numeric_limits<uint16_t>::max())
            throw Error(ErrorKind::unsupported,
                        "a directory has more entries than squashfs can index");
        const uint32_t parent =
            directory == input_.tree.root()
                ? input_.live.count + 1
                : input_.live.inodes[input_.tree.node(node.parent).inode].number;
        InodePtr inode(
            sqfs_dir_writer_create_inode(directories_.get(), input_.live.inodes[node.inode].links,
                                         xattrs_of(input_.tree.inode(node.inode)), parent));
        if (!inode) require_sqfs(-1, "sqfs_dir_writer_create_inode");
        if (inode->base.type == SQFS_INODE_DIR)
            inode->data.dir.nlink = input_.live.inodes[node.inode].links;
        else
            inode->data.dir_ext.nlink = input_.live.inodes[node.inode].links;
        kept_[directory] = std::move(inode);
    }

    void write_inode(NodeId id) {
        const InodeId inode_id = input_.tree.node(id).inode;
        if (references_[inode_id] != kUnwritten) return;  // another name of a hard link
        sqfs_u64 block = 0;
        sqfs_u32 offset = 0;
        sqfs_meta_writer_get_position(inodes_.get(), &block, &offset);
        references_[inode_id] = block << 16 | offset;
        const Inode& inode = input_.tree.inode(inode_id);
        if (inode.entry.type == EntryType::file) {
            write_file(inode_id, inode);
        } else if (inode.entry.type == EntryType::directory) {
            const auto kept = kept_.extract(id);
            fill_base(kept.mapped()->base, inode_id, inode);
            check(sqfs_meta_writer_write_inode(inodes_.get(), kept.mapped().get()),
                  "sqfs_meta_writer_write_inode");
        } else {
            write_special(inode_id, inode);
        }
    }

    void fill_base(sqfs_inode_t& base, InodeId id, const Inode& inode) {
        base.mode = static_cast<sqfs_u16>(type_bits(inode.entry.type) | (inode.entry.mode & 07777));
        base.uid_idx = id_index(inode.entry.uid);
        base.gid_idx = id_index(inode.entry.gid);
        base.mod_time = clamp_time(inode.entry.mtime);
        base.inode_number = input_.live.inodes[id].number;
    }

    void write_special(InodeId id, const Inode& inode) {
        const std::string& target = inode.entry.link_target;
        const bool link = inode.entry.type == EntryType::symlink;
        const size_t extra = link ? target.size() + 1 : 0;
        InodePtr raw(static_cast<sqfs_inode_generic_t*>(
            std::calloc(1, sizeof(sqfs_inode_generic_t) + extra)));
        if (!raw) throw std::bad_alloc();
        const uint32_t links = input_.live.inodes[id].links;
        fill_base(raw->base, id, inode);
        if (link) {
            if (target.empty() || target.size() > 65535)
                throw Error(ErrorKind::invalid_archive,
                            fmt::format("a symbolic link has a target of {} bytes", target.size()));
            raw->base.type = SQFS_INODE_SLINK;
            raw->data.slink.nlink = links;
            raw->data.slink.target_size = static_cast<sqfs_u32>(target.size());
            std::memcpy(raw->extra, target.data(), target.size());
        } else if (inode.entry.type == EntryType::fifo || inode.entry.type == EntryType::socket) {
            raw->base.type =
                inode.entry.type == EntryType::fifo ? SQFS_INODE_FIFO : SQFS_INODE_SOCKET;
            raw->data.ipc.nlink = links;
        } else {
            raw->base.type =
                inode.entry.type == EntryType::char_device ? SQFS_INODE_CDEV : SQFS_INODE_BDEV;
            raw->data.dev.nlink = links;
            raw->data.dev.devno = encode_device(inode.entry.device_major, inode.entry.device_minor);
        }
        check(sqfs_inode_set_xattr_index(raw.get(), xattrs_of(inode)),
              "sqfs_inode_set_xattr_index");
        check(sqfs_meta_writer_write_inode(inodes_.get(), raw.get()),
              "sqfs_meta_writer_write_inode");
    }

    void write_file(InodeId id, const Inode& inode) {
        const FilePlace& place = input_.placement.files[id];
        const uint32_t links = input_.live.inodes[id].links;
        const uint32_t xattr = xattrs_of(inode);
        const uint64_t size = inode.entry.size_bytes;
        constexpr uint64_t kShort = std::numeric_limits<uint32_t>::max();
        const bool basic = place.start <= kShort && size <= kShort && links == 1 &&
                           xattr == kNoXattr && place.sparse_bytes == 0;
        sqfs_inode_t base{};
        fill_base(base, id, inode);
        put16(basic ? SQFS_INODE_FILE : SQFS_INODE_EXT_FILE);
        put16(base.mode & 07777);
        put16(base.uid_idx);
        put16(base.gid_idx);
        put32(base.mod_time);
        put32(base.inode_number);
        if (basic) {
            put32(static_cast<uint32_t>(place.start));
            put32(place.fragment);
            put32(place.fragment_offset);
            put32(static_cast<uint32_t>(size));
        } else {
            put64(place.start);
            put64(size);
            put64(place.sparse_bytes);
            put32(links);
            put32(place.fragment);
            put32(place.fragment_offset);
            put32(xattr);
        }
        const Pack& pack = input_.packs[inode.pack];
        for (uint64_t i = 0; i < inode.data.block_count; ++i) {
            put32(pack.blocks[inode.data.first_block + i].word);
            if (encoded_.size() >= (64u << 10)) append();
        }
        append();
    }

    void put16(uint32_t value) {
        const uint16_t little = htole16(static_cast<uint16_t>(value));
        encoded_.append(reinterpret_cast<const char*>(&little), sizeof little);
    }
    void put32(uint32_t value) {
        const uint32_t little = htole32(value);
        encoded_.append(reinterpret_cast<const char*>(&little), sizeof little);
    }
    void put64(uint64_t value) {
        const uint64_t little = htole64(value);
        encoded_.append(reinterpret_cast<const char*>(&little), sizeof little);
    }
    void append() {
        check(sqfs_meta_writer_append(inodes_.get(), encoded_.data(), encoded_.size()),
              "sqfs_meta_writer_append");
        encoded_.clear();
    }

    uint16_t id_index(uint32_t id) {
        distinct_ids_.insert(id);
        if (distinct_ids_.size() > kMostIds)
            throw Error(ErrorKind::unsupported,
                        fmt::format("the image has more than {} different owners and groups; a "
                                    "squashfs cannot hold them",
                                    kMostIds))
                .hint("change owners to a few users in the layer that sets them (chown)");
        sqfs_u16 index = 0;
        check(sqfs_id_table_id_to_index(ids_.get(), id, &index), "sqfs_id_table_id_to_index");
        return index;
    }

    uint32_t clamp_time(int64_t seconds) {
        if (input_.clamp_mtime) seconds = std::min(seconds, *input_.clamp_mtime);
        constexpr int64_t kLast = std::numeric_limits<uint32_t>::max();
        if (seconds < 0 || seconds > kLast)
            warn_once(
                "times before 1970 or after 2106 do not fit a squashfs; they were moved "
                "inside that range");
        return static_cast<uint32_t>(std::clamp<int64_t>(seconds, 0, kLast));
    }

    uint32_t xattrs_of(const Inode& inode) {
        if (inode.entry.xattrs.empty()) return kNoXattr;
        check(sqfs_xattr_writer_begin(xattrs_.get(), 0), "sqfs_xattr_writer_begin");
        size_t kept = 0;
        for (const auto& [key, value] : inode.entry.xattrs) {
            if (!storable(key, value)) continue;
            check(sqfs_xattr_writer_add(xattrs_.get(), key.c_str(), value.data(), value.size()),
                  "sqfs_xattr_writer_add");
            ++kept;
        }
        uint32_t index = kNoXattr;
        check(sqfs_xattr_writer_end(xattrs_.get(), &index), "sqfs_xattr_writer_end");
        return kept > 0 ? index : kNoXattr;
    }

    bool storable(const std::string& key, const std::string& value) {
        if (key.starts_with("system.posix_acl_")) {
            warn_once(
                "POSIX access control lists cannot be stored in a squashfs and were left "
                "out; the permission bits were kept");
            return false;
        }
        if (!key.starts_with("user.") && !key.starts_with("trusted.") &&
            !key.starts_with("security.")) {
            warn_once(
                "extended attributes other than user, trusted and security cannot be stored "
                "in a squashfs and were left out");
            return false;
        }
        if (key.size() > 255 || value.size() > kLargestXattr || key.ends_with('.')) {
            warn_once("extended attributes that are larger than Linux allows were left out");
            return false;
        }
        return true;
    }

    void warn_once(const char* text) {
        if (warned_.insert(text).second) warnings_.emplace_back(text);
    }

    OutputFile& output_;
    const TableInput& input_;
    std::vector<std::string>& warnings_;
    Compressor compressor_;
    SqfsPtr<sqfs_meta_writer_t> inodes_, names_;
    SqfsPtr<sqfs_dir_writer_t> directories_;
    SqfsPtr<sqfs_id_table_t> ids_;
    SqfsPtr<sqfs_xattr_writer_t> xattrs_;
    std::vector<uint64_t> references_;
    const std::optional<NodeId> config_directory_;
    std::map<NodeId, InodePtr> kept_;  // directories whose listing is written, inode not yet
    std::set<uint32_t> distinct_ids_;
    std::set<std::string> warned_;
    std::string encoded_;
};

}  // namespace

uint64_t begin_tables(OutputFile& output, const SquashfsOptions& options) {
    const char nothing[sizeof(sqfs_super_t)] = {};
    sqfs_file_t* file = output.sqfs();
    int result = file->write_at(file, 0, nothing, sizeof nothing);
    const Compressor compressor = make_compressor(options);
    if (result == 0) result = compressor->write_options(compressor.get(), file);
    output.rethrow();
    require_sqfs(result, "write_options");
    return output.size_bytes();
}

void write_tables(OutputFile& output, const TableInput& input, std::vector<std::string>& warnings) {
    TableWriter(output, input, warnings).write();
}

}  // namespace slipway::image::squashfs
