// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/mounts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>
#include <vector>

namespace flight {
namespace {

// A mount point in the encoding of mountinfo: blanks, newlines and backslashes as \ooo.
std::string unescaped(std::string_view text) {
  if (text.find('\\') == std::string_view::npos) return std::string(text);
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 4, value, 8).ptr == text.data() + i + 4) {
      out += static_cast<char>(value);
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

// The field of a line with that number, and what is behind it.
std::pair<std::string_view, std::string_view> field(std::string_view line, int number) {
  for (;; --number) {
    const std::string_view one = line.substr(0, line.find(' '));
    line.remove_prefix(std::min(line.size(), one.size() + 1));
    if (number == 0) return {one, line};
  }
}

// Escaped: most have no such character, and need no copy.
std::string_view point_in(std::string_view line) { return field(line, 4).first; }

bool covers(std::string_view escaped, std::string_view path, std::size_t at_least) {
  if (escaped.size() < at_least) return false;
  const std::string other = escaped.find('\\') == std::string_view::npos ? std::string() : unescaped(escaped);
  const std::string_view point = other.empty() ? escaped : std::string_view(other);
  if (point.size() < at_least || point.empty()) return false;
  return point == "/" || (path.starts_with(point) && (path.size() == point.size() || path[point.size()] == '/'));
}

std::optional<Mount> mount_in(std::string_view line) {
  const std::size_t dash = line.find(" - ");
  if (dash == std::string_view::npos) return std::nullopt;
  const auto [id, behind_id] = field(line, 0);
  const auto [device, behind_device] = field(behind_id, 1);
  const auto [type, behind_type] = field(line.substr(dash + 3), 0);
  const auto [source, options] = field(behind_type, 0);
  return Mount{.id = id,
               .device = device,
               .type = type,
               .source = source,
               .options = options.substr(options.rfind(' ') + 1),
               .point = unescaped(point_in(line))};
}

constexpr std::size_t kMaxStacked = 3;  // one on the other

// The host's mounts without those that lie on the layer that is looked for: it is where it was when they were mounted,
// often under them, at the same path.
struct Others {
  std::string_view mounts;
  std::vector<std::string_view> above;  // their devices
};

std::optional<Mount> mount_among(const Others& others, std::string_view path) {
  std::optional<Mount> out;
  std::string_view rest = others.mounts;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    // A later mount on the same point covers the earlier one.
    if (!covers(point_in(line), path, out ? out->point.size() : 0) ||
        std::find(others.above.begin(), others.above.end(), field(line, 2).first) != others.above.end())
      continue;
    if (auto mount = mount_in(line)) out = std::move(mount);
  }
  return out;
}

std::string waits_within(Others others, const Mount& mount);

// `path`: of a layer of `over`.
std::string layer_that_waits(const Others& others, const Mount& over, std::string_view path) {
  if (path.empty()) return {};
  const auto mount = path.starts_with('/') ? mount_among(others, unescaped(path)) : std::nullopt;
  if (!mount) return fmt::format("{} on an unknown layer", over.type);
  const std::string type = waits_within(others, *mount);
  return type.empty() ? type : fmt::format("{} on {}", over.type, type);
}

// Looks for a layer that waits. The options are, for example, "rw,lowerdir=/a:/b,upperdir=/c,workdir=/d".
std::string overlay_waits(const Others& others, const Mount& over) {
  constexpr std::array<std::string_view, 4> kLayers = {"lowerdir", "lowerdir+", "datadir+", "upperdir"};
  std::string_view options = over.options;
  while (!options.empty()) {
    const std::string_view option = options.substr(0, options.find(','));
    options.remove_prefix(std::min(options.size(), option.size() + 1));
    const std::size_t equals = option.find('=');
    if (equals == std::string_view::npos ||
        std::find(kLayers.begin(), kLayers.end(), option.substr(0, equals)) == kLayers.end())
      continue;
    std::string_view paths = option.substr(equals + 1);
    while (!paths.empty()) {
      const std::string_view path = paths.substr(0, paths.find(':'));
      paths.remove_prefix(std::min(paths.size(), path.size() + 1));
      if (std::string type = layer_that_waits(others, over, path); !type.empty()) return type;
    }
  }
  return {};
}

std::string waits_within(Others others, const Mount& mount) {
  if (is_served(mount.type)) return std::string(mount.type);
  const bool is_overlay = mount.type == "overlay";
  if (!is_overlay && mount.type != "ecryptfs") return {};
  if (others.above.size() >= kMaxStacked) return fmt::format("{0} on {0}", mount.type);
  others.above.push_back(mount.device);
  return is_overlay ? overlay_waits(others, mount) : layer_that_waits(others, mount, mount.source);
}

// The first line with this value of a field.
std::optional<Mount> first_with(std::string_view mounts, int number, std::string_view value) {
  while (!mounts.empty()) {
    const std::string_view line = mounts.substr(0, mounts.find('\n'));
    mounts.remove_prefix(std::min(mounts.size(), line.size() + 1));
    if (field(line, number).first != value) continue;
    if (auto mount = mount_in(line)) return mount;
  }
  return std::nullopt;
}

}  // namespace

std::string waits_for(std::string_view host_mounts, const Mount& mount) {
  return waits_within({.mounts = host_mounts, .above = {}}, mount);
}

std::optional<Mount> mount_of(std::string_view mounts, std::string_view path) {
  return mount_among({.mounts = mounts, .above = {}}, path);
}

std::optional<Mount> mount_with(std::string_view mounts, std::string_view device) {
  return first_with(mounts, 2, device);
}

std::optional<Mount> mount_numbered(std::string_view mounts, std::string_view id) { return first_with(mounts, 0, id); }

bool is_served(std::string_view type) {
  // Names as in mountinfo: OrangeFS is pvfs2, BeeGFS was fhgfs. Those of virtual machines wait for the host. OCFS2,
  // GFS2 and ACFS are on a disk, and wait for locks that other machines hold.
  constexpr std::array kServed = {"nfs",        "nfs4",   "cifs",   "smb3",   "smbfs",    "ncpfs",    "afs",
                                  "auristorfs", "coda",   "ceph",   "lustre", "pvfs2",    "gpfs",     "beegfs",
                                  "fhgfs",      "panfs",  "wekafs", "ibrix",  "9p",       "virtiofs", "vboxsf",
                                  "vmhgfs",     "prl_fs", "ocfs2",  "gfs2",   "gfs2meta", "acfs",     "autofs"};
  return type.starts_with("fuse") || std::find(kServed.begin(), kServed.end(), type) != kServed.end();
}

}  // namespace flight
