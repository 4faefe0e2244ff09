// SPDX-License-Identifier: Apache-2.0
// flightctl get ID [-o FILE|-] [--force] [--with-symbols | --plain]: copies a snapshot to a file of the caller, packs
// it in a tar for another machine, or writes it without compression. A recording is several files: FILE, FILE.2, …
#include "ctl/bundle.hpp"
#include "ctl/fetch.hpp"
#include "ctl/output.hpp"
#include "ctl/plain.hpp"
#include "ctl/recordings.hpp"

namespace flight::ctl {
namespace {

Answer<std::string> fetch_one(const Common& common, const std::string& id, const OutputFile& target, GetForm form) {
  if (form == GetForm::bundle) return fetch_bundle(common, id, target);
  return form == GetForm::plain ? fetch_plain(common, id, target) : fetch(common, id, target);
}

}  // namespace

int run_get(const Common& common, const std::string& id, const OutputFile& target, GetForm form) {
  if (const std::string why = check_target(target); !why.empty()) return complain(common, kUsageError, why, kUsage);
  if (const auto place = check_place(target); !place)
    return complain(common, kOutputFailed, place.error().what, kRefused);
  const auto ids = parts_of(common, id);
  if (!ids) return complain(common, ids.error());
  if (target.path == "-" && ids->size() > 1)
    return complain(common, kUsageError,
                    fmt::format("recording {} has {} parts, which are files of their own: give -o FILE, or the id of a "
                                "part",
                                ids->front(), ids->size()),
                    kUsage);
  std::vector<std::string> written;
  for (std::size_t i = 0; i < ids->size(); ++i) {
    OutputFile part = target;
    if (!part.path.empty()) part.path = part_path(target.path, i + 1);
    auto where = fetch_one(common, (*ids)[i], part, form);
    if (!where) return complain(common, where.error());
    written.push_back(std::move(*where));
  }
  if (target.path == "-") return kDone;
  if (common.json) return print(stdout, indented(to_json(written)));
  std::string out;
  for (const std::string& where : written) out += printable(where) + "\n";
  return print(stdout, out);
}

}  // namespace flight::ctl
