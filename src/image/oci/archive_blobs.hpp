// The members of a tar file as blobs. Private to the image room.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "../layer/tar_index.hpp"
#include "model.hpp"
#include "slipway/base/fd.hpp"
#include "slipway/image/reference.hpp"

namespace slipway::image {

/// A file without a name in the temporary directory.
UniqueFd scratch_file();

/// A tar file, decompressed if need be into a file without a name, whose members can be opened one
/// at a time.
class ArchiveBlobs : public IndexedBlobs {
 public:
    /// Throws: Error(invalid_archive).
    explicit ArchiveBlobs(const std::string& file);

    const std::string& subject() const { return subject_; }
    int fd() const { return archive_.get(); }
    /// A member, links followed; nullptr if it is not there.
    const TarMember* find(const std::string& name) const;
    /// Throws: Error(invalid_image) when it is not there.
    const TarMember& get(const std::string& name) const;
    UniqueFd open(const TarMember& member) const;
    std::string read(const TarMember& member) const;

    /// Give a member the name of a digest.
    void name_blob(const Digest& digest, const TarMember& member) { blobs_[digest] = member; }
    /// What name_blob named, or a member below blobs/sha256/.
    UniqueFd open_blob(const Digest& digest) const override;
    /// Empty where the tar holds no layout.
    Json index() const override;

 private:
    std::string subject_;
    UniqueFd archive_;
    std::map<std::string, TarMember> members_;
    std::map<Digest, TarMember> blobs_;
};

/// Open an OCI layout that lies in a tar file, by its tag.
OciImage open_oci_archive(const std::string& file, const std::string& tag,
                          const std::string& platform = {});
/// The blobs of an OCI layout that lies in a tar file, and the text of its index.json.
std::pair<std::shared_ptr<const BlobSource>, std::string> open_archive_index(
    const std::string& file);
/// Open a tar of a root directory as an image of one layer, which is that file; the configuration
/// is the one that Slipway put inside, if any.
OciImage open_plain_tar(const std::string& file);
/// Open a docker archive that is open already; see open_docker_archive(file, reference).
OciImage open_docker_archive(std::shared_ptr<ArchiveBlobs> blobs, const std::string& reference);
struct ArchiveImage {
    RefKind kind = RefKind::tar;  ///< docker_archive, oci_archive or tar
    OciImage image;
};
/// Open a tar of any of the three kinds, told by its members. Throws: Error(usage) when `name` is
/// set and it is a plain tar.
ArchiveImage open_archive(const std::string& file, const std::string& name,
                          const std::string& platform = {});

}  // namespace slipway::image
