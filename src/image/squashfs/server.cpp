// Serve a squashfs over FUSE, made for a tree that never changes: no state per open file, infinite
// timeouts, node ids that are inode references.
// Must not: install signal handlers, run fusermount, or hold a mount namespace: it ends when
// /dev/fuse says ENODEV, which the kernel does when the last namespace with this mount is gone.
#define FUSE_USE_VERSION 35

#include <fmt/format.h>
#include <fuse3/fuse_lowlevel.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <system_error>
#include <thread>

#include "answering.hpp"
#include "listing.hpp"
#include "read_ahead.hpp"
#include "served_tree.hpp"
#include "slipway/base/fd.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/base/sys_process.hpp"
#include "slipway/image/squashfs.hpp"
#include "start_files.hpp"

namespace slipway::image {
namespace {

using squashfs::InodeInfo;
using squashfs::kForever;
using squashfs::Piece;

constexpr size_t kLargestReply = 1u << 20;
constexpr unsigned kListedByAWalk = 4;  // directories; a start lists one or two
const uint8_t kZeros[kLargestReply] = {};

/// What the handlers work with.
struct Serving {
    Serving(const SquashfsServerOptions& options)
        : tree(options),
          ahead(
              tree.reader(), options.image->fd(),
              [this](uint64_t node) { return tree.inode(node); }, options.threads) {}

    squashfs::Server tree;
    squashfs::Listings listings;
    std::atomic<bool> listed_with_files{false};
    std::atomic<unsigned> listed{0};  ///< directories
    squashfs::ReadAhead ahead;
};

Serving& serving_of(fuse_req_t request) {
    return *static_cast<Serving*>(fuse_req_userdata(request));
}

/// Run a handler; what it throws becomes the reply. Nothing may pass through libfuse's C code, and
/// a handler replies as its last act, so that no request is answered twice.
template <typename Body>
void answer(fuse_req_t request, Body&& body) {
    int failure = EIO;
    try {
        body(serving_of(request));
        return;
    } catch (const SysError& error) {
        failure = error.errno_value() > 0 ? error.errno_value() : EIO;
        serving_of(request).tree.warn(error.what(), fuse_req_ctx(request)->pid);
    } catch (const std::bad_alloc&) {
        failure = ENOMEM;
    } catch (const std::exception& error) {
        serving_of(request).tree.warn(error.what(), fuse_req_ctx(request)->pid);
    }
    fuse_reply_err(request, failure);
}

/// What a handler does when it has replied already.
template <typename Body>
void afterwards(Body&& body) {
    try {
        body();
    } catch (const std::exception&) {  // no room for a guess
    }
}

/// Not FUSE_CAP_ASYNC_READ: page_store.hpp says why.
void op_init(void*, fuse_conn_info* connection) {
    const unsigned wanted = FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_CACHE_SYMLINKS |
                            FUSE_CAP_NO_OPEN_SUPPORT | FUSE_CAP_NO_OPENDIR_SUPPORT |
                            FUSE_CAP_READDIRPLUS;
    connection->want = wanted & connection->capable;
    connection->time_gran = 1000000000;
}

void op_lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
    answer(request, [&](Serving& serving) {
        squashfs::Server& server = serving.tree;
        const InodeInfo directory = server.inode(parent);
        if (!S_ISDIR(directory.mode)) {
            fuse_reply_err(request, ENOTDIR);
            return;
        }
        fuse_entry_param entry = {};
        entry.entry_timeout = kForever;  // of an absent name too
        const auto inode = server.lookup(directory, name);
        if (inode) entry = server.entry(*inode);
        fuse_reply_entry(request, &entry);
        if (!inode || S_ISDIR(inode->mode)) return;
        serving.listings.file_was_looked_up(parent);
        afterwards([&] { serving.ahead.became_known(entry.ino, *inode); });
    });
}

void op_getattr(fuse_req_t request, fuse_ino_t node, fuse_file_info*) {
    answer(request, [&](Serving& serving) {
        squashfs::Server& server = serving.tree;
        const struct stat st = server.describe(server.inode(node));
        fuse_reply_attr(request, &st, kForever);
    });
}

void op_readlink(fuse_req_t request, fuse_ino_t node) {
    answer(request, [&](Serving& serving) {
        squashfs::Server& server = serving.tree;
        const InodeInfo inode = server.inode(node);
        if (!S_ISLNK(inode.mode)) {
            fuse_reply_err(request, EINVAL);
            return;
        }
        const std::string target = server.reader().link_target(inode);
        fuse_reply_readlink(request, target.c_str());
    });
}

/// ENOSYS: the kernel asks never again, and keeps the page cache across opens.
void op_open(fuse_req_t request, fuse_ino_t, fuse_file_info*) { fuse_reply_err(request, ENOSYS); }

void list(fuse_req_t request, fuse_ino_t node, size_t size, off_t offset, bool plus) {
    answer(request, [&](Serving& serving) {
        squashfs::Server& server = serving.tree;
        const InodeInfo directory = server.inode(node);
        if (!S_ISDIR(directory.mode)) {
            fuse_reply_err(request, ENOTDIR);
            return;
        }
        if (offset == 0 && ++serving.listed == kListedByAWalk) server.reader().read_tables_ahead();
        if (offset == 0) serving.listed_with_files = serving.listings.wants_files(node);
        std::vector<std::pair<uint64_t, InodeInfo>> known;
        const std::vector<char> reply = squashfs::list_directory(
            server, request, directory, node, std::min(size, kLargestReply),
            static_cast<uint64_t>(offset), plus, serving.listed_with_files, known);
        fuse_reply_buf(request, reply.data(), reply.size());
        afterwards([&] {
            for (const auto& [file, inode] : known) serving.ahead.became_known(file, inode);
        });
    });
}

void op_readdir(fuse_req_t request, fuse_ino_t node, size_t size, off_t offset, fuse_file_info*) {
    list(request, node, size, offset, false);
}
void op_readdirplus(fuse_req_t request, fuse_ino_t node, size_t size, off_t offset,
                    fuse_file_info*) {
    list(request, node, size, offset, true);
}

void op_read(fuse_req_t request, fuse_ino_t node, size_t size, off_t offset, fuse_file_info*) {
    answer(request, [&](Serving& serving) {
        squashfs::Server& server = serving.tree;
        const InodeInfo file = server.inode(node);
        if (!S_ISREG(file.mode)) {
            fuse_reply_err(request, S_ISDIR(file.mode) ? EISDIR : EINVAL);
            return;
        }
        const auto from = static_cast<uint64_t>(offset);
        serving.ahead.will_read(node, file, from, size);
        const std::vector<Piece> pieces =
            server.reader().read(file, from, std::min(size, kLargestReply));
        std::vector<iovec> parts;
        parts.reserve(pieces.size());
        for (const Piece& piece : pieces) {
            const uint8_t* bytes = piece.block ? piece.block->data.get() + piece.offset : kZeros;
            parts.push_back({const_cast<uint8_t*>(bytes), piece.size_bytes});
        }
        fuse_reply_iov(request, parts.data(), static_cast<int>(parts.size()));
        afterwards([&] { serving.ahead.was_read(node, file, from, size); });
    });
}

void op_getxattr(fuse_req_t request, fuse_ino_t node, const char* name, size_t size) {
    answer(request, [&](Serving& serving) {
        squashfs::Server& server = serving.tree;
        if (!server.reader().has_xattrs()) {
            fuse_reply_err(request, ENOSYS);  // the kernel asks never again
            return;
        }
        const auto all = server.reader().xattrs(server.inode(node));
        const auto found = all.find(name);
        if (found == all.end())
            fuse_reply_err(request, ENODATA);
        else if (size == 0)
            fuse_reply_xattr(request, found->second.size());
        else if (size < found->second.size())
            fuse_reply_err(request, ERANGE);
        else
            fuse_reply_buf(request, found->second.data(), found->second.size());
    });
}

void op_listxattr(fuse_req_t request, fuse_ino_t node, size_t size) {
    answer(request, [&](Serving& serving) {
        squashfs::Server& server = serving.tree;
        std::string names;
        for (const auto& [name, value] : server.reader().xattrs(server.inode(node)))
            names.append(name).push_back('\0');
        if (size == 0)
            fuse_reply_xattr(request, names.size());
        else if (size < names.size())
            fuse_reply_err(request, ERANGE);
        else
            fuse_reply_buf(request, names.data(), names.size());
    });
}

void op_statfs(fuse_req_t request, fuse_ino_t) {
    answer(request, [&](Serving& serving) {
        squashfs::Server& server = serving.tree;
        const auto& super = server.reader().super();
        struct statvfs st = {};
        st.f_bsize = st.f_frsize = super.block_size;
        st.f_blocks = (super.bytes_used + super.block_size - 1) / super.block_size;
        st.f_files = super.inodes;
        st.f_namemax = 255;
        fuse_reply_statfs(request, &st);
    });
}

/// Python asks every file it imports whether it is a terminal.
void op_ioctl(fuse_req_t request, fuse_ino_t, unsigned, void*, fuse_file_info*, unsigned,
              const void*, size_t, size_t) {
    fuse_reply_err(request, ENOTTY);
}

/// Node ids are found again from themselves: nothing is held that could be forgotten.
void op_forget(fuse_req_t request, fuse_ino_t, uint64_t) { fuse_reply_none(request); }
void op_forget_multi(fuse_req_t request, size_t, fuse_forget_data*) { fuse_reply_none(request); }

fuse_lowlevel_ops operations() {
    fuse_lowlevel_ops ops = {};
    ops.init = op_init;
    ops.lookup = op_lookup;
    ops.forget = op_forget;
    ops.forget_multi = op_forget_multi;
    ops.getattr = op_getattr;
    ops.readlink = op_readlink;
    ops.open = op_open;
    ops.opendir = op_open;
    ops.readdir = op_readdir;
    ops.readdirplus = op_readdirplus;
    ops.read = op_read;
    ops.getxattr = op_getxattr;
    ops.listxattr = op_listxattr;
    ops.statfs = op_statfs;
    ops.ioctl = op_ioctl;
    return ops;
}

struct SessionCloser {
    void operator()(fuse_session* session) const { fuse_session_destroy(session); }
};
using Session = std::unique_ptr<fuse_session, SessionCloser>;

Session open_session(const fuse_lowlevel_ops& ops, Serving& serving, int fuse_fd) {
    char program[] = "slipway";
    char* arguments[] = {program, nullptr};
    fuse_args args = FUSE_ARGS_INIT(1, arguments);
    Session session(fuse_session_new(&args, &ops, sizeof ops, &serving));
    if (!session) throw Error(ErrorKind::internal, "libfuse made no session");
    // The session closes its descriptor; the caller keeps his.
    UniqueFd device(::fcntl(fuse_fd, F_DUPFD_CLOEXEC, 3));
    if (!device) throw SysError("cannot duplicate the FUSE device", "fcntl");
    const std::string place = fmt::format("/dev/fd/{}", device.get());
    if (fuse_session_mount(session.get(), place.c_str()) != 0)
        throw Error(ErrorKind::internal, "libfuse does not take an open device");
    device.release();
    return session;
}

}  // namespace

std::string fuse_mount_options(int fuse_fd, uint32_t uid, uint32_t gid) {
    return fmt::format(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions,allow_other", fuse_fd, uid,
        gid);
}

class SquashfsServer::Impl {
 public:
    explicit Impl(SquashfsServerOptions options);
    ~Impl() {
        stop_ = true;
        if (ahead_.joinable()) ahead_.join();
        serving_.ahead.stop();
    }
    int serve();

 private:
    const SquashfsServerOptions options_;
    Serving serving_;
    const fuse_lowlevel_ops operations_ = operations();
    const Session session_;
    std::atomic<bool> stop_{false};
    std::thread ahead_;  ///< never answers a request, so that none waits for it in vain
};

SquashfsServer::Impl::Impl(SquashfsServerOptions options)
    : options_(std::move(options)),
      serving_(options_),
      session_(open_session(operations_, serving_, options_.fuse_fd)) {
    if (options_.programs_ahead.empty() && options_.files_ahead.empty()) return;
    try {
        ahead_ = std::thread([this] {
            squashfs::read_start_files(
                serving_.tree.reader(), options_.programs_ahead, options_.files_ahead, stop_,
                [this](const InodeInfo& file) {
                    serving_.ahead.expect(serving_.tree.node_of(file.reference));
                });
        });
    } catch (const std::system_error&) {  // the user's limit: nothing is read ahead
    }
}

int SquashfsServer::Impl::serve() {
    sys::run_on_all_processors();  // and so may what reads ahead
    serving_.ahead.start(fuse_session_fd(session_.get()));
    const int failure =
        squashfs::Answering(session_.get(), std::max(1u, options_.threads), [this](int processor) {
            serving_.ahead.keep_off(processor);
        }).run();
    stop_ = true;
    return failure;
}

SquashfsServer::SquashfsServer(SquashfsServerOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
SquashfsServer::~SquashfsServer() = default;
int SquashfsServer::serve() { return impl_->serve(); }

int serve_squashfs(const SquashfsServerOptions& options) { return SquashfsServer(options).serve(); }

}  // namespace slipway::image
