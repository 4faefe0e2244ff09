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
  const auto rows = all_rows(common);
  if (!rows) return complain(common, rows.error());
  const std::vector<RecordedPart> parts = parts_of(*rows, id);
  if (target.path == "-" && parts.size() > 1)
    return complain(common, kUsageError,
                    fmt::format("recording {} has {} parts, which are files of their own: give -o FILE, or the id of a "
                                "part",
                                parts.front().id, parts.size()),
                    kUsage);
  const auto target_of = [&target](const RecordedPart& part) {
    OutputFile out = target;
    if (!out.path.empty() && out.path != "-") out.path = part_path(target.path, part.number);
    return out;
  };
  // All of them before the first is written.
  for (const RecordedPart& part : parts)
    if (const auto place = check_place(target_of(part)); !place)
      return complain(common, kOutputFailed, place.error().what, kRefused);
  std::vector<std::string> written;
  for (const RecordedPart& part : parts) {
    auto where = fetch_one(common, part.id, target_of(part), form);
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
