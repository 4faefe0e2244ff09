// SPDX-License-Identifier: Apache-2.0
// flightctl get [ID...] [-o FILE|-] [--force] [--with-symbols | --plain]: copies snapshots to files of the caller,
// packs each in a tar for another machine, or writes it without compression. A recording is several files: FILE,
// FILE.2, … An error on one of several snapshots does not stop the others.
#include <algorithm>

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

// The parts of all recordings, and the snapshots, each once.
std::vector<RecordedPart> parts_of_all(const std::vector<CatalogueRow>& rows, const std::vector<std::string>& ids) {
  std::vector<RecordedPart> out;
  for (const std::string& id : ids)
    for (RecordedPart& part : parts_of(rows, id))
      if (std::none_of(out.begin(), out.end(), [&](const RecordedPart& known) { return known.id == part.id; }))
        out.push_back(std::move(part));
  return out;
}

// Why not all of these can go to `target`; empty: they can.
std::string too_many_text(const std::vector<std::string>& ids, const std::vector<RecordedPart>& parts,
                          const OutputFile& target) {
  if (ids.size() > 1 && !target.path.empty())
    return fmt::format("-o {} is one file, but {} ids are given: leave out -o to copy each under its own name",
                       target.path, ids.size());
  if (target.path == "-" && parts.size() > 1)
    return fmt::format("recording {} has {} parts, which are files of their own: give -o FILE, or the id of a part",
                       parts.front().id, parts.size());
  return "";
}

int print_names(const Common& common, const std::vector<std::string>& written) {
  if (common.json) return print(stdout, indented(to_json(written)));
  std::string out;
  for (const std::string& where : written) out += printable(where) + "\n";
  return out.empty() ? kDone : print(stdout, out);
}

}  // namespace

int run_get(const Common& common, const std::vector<std::string>& typed, const OutputFile& target, GetForm form) {
  const std::vector<std::string> ids = typed.empty() ? std::vector<std::string>{"latest"} : typed;
  if (const std::string why = check_target(target); !why.empty()) return complain(common, kUsageError, why, kUsage);
  if (const std::string why = too_many_text(ids, {}, target); !why.empty())
    return complain(common, kUsageError, why, kUsage);
  if (const auto place = check_place(target); !place)
    return complain(common, kOutputFailed, place.error().what, kRefused);
  const auto rows = all_rows(common);
  if (!rows) return complain(common, rows.error());
  const std::vector<RecordedPart> parts = parts_of_all(*rows, ids);
  if (const std::string why = too_many_text(ids, parts, target); !why.empty())
    return complain(common, kUsageError, why, kUsage);
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
  std::vector<Refusal> refusals;
  for (const RecordedPart& part : parts) {
    auto where = fetch_one(common, part.id, target_of(part), form);
    if (where) {
      written.push_back(std::move(*where));
      continue;
    }
    refusals.push_back(std::move(where.error()));
    if (refusals.back().name == kNotConnected) break;  // the next call would fail, too
  }
  if (refusals.empty()) return target.path == "-" ? kDone : print_names(common, written);
  if (!common.json) static_cast<void>(print_names(common, written));
  return complain(common, refusals);
}

}  // namespace flight::ctl
