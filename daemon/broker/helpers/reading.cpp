// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/helpers/reading.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "libcore/broker/packed.hpp"

namespace flight::broker {
namespace {

struct FileRequest {
  std::uint64_t address = 0, inode = 0, generation = 0, seen_ns = 0;
  std::uint32_t pid = 0, major = 0, minor = 0;
  std::uint32_t has_known = 0;
  std::uint32_t by_name = 0, reserved = 0;
  FileStamp known;
  std::uint64_t name_bytes = 0;
};

// The structures have no padding, so that nothing of the memory is sent.
struct FileReply {
  std::int32_t error = 0;  // an errno; 0: the facts follow
  std::uint32_t was_read = 0, unchanged = 0, stamp_proves = 0, unlinked = 0, reserved = 0;
  std::uint64_t generation = 0;
  FileStamp stamp;
  ClockPair looked;
  std::uint32_t build_id_bytes = 0, host_path_bytes = 0, served_by_bytes = 0, what_bytes = 0;
};

std::string_view as_text(const std::vector<std::uint8_t>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// They follow each other; each part of the reply has the facts of one.
std::vector<std::byte> request_for(std::span<const MappedAt> files) {
  PackedWriter out;
  for (const MappedAt& at : files) {
    const FileRequest request{.address = at.address,
                              .inode = at.file.inode,
                              .generation = at.file.generation,
                              .seen_ns = at.seen_ns,
                              .pid = at.pid,
                              .major = at.file.major,
                              .minor = at.file.minor,
                              .has_known = at.known ? 1U : 0U,
                              .by_name = at.by_name ? 1U : 0U,
                              .known = at.known.value_or(FileStamp()),
                              .name_bytes = at.name.size()};
    out.add(request);
    out.add_text(at.name);
  }
  return std::move(out).take();
}

std::optional<MappedAt> file_request(PackedReader& in) {
  FileRequest request;
  if (!in.take(request)) return std::nullopt;
  const auto name = in.take_text(request.name_bytes);
  if (!name) return std::nullopt;
  MappedAt at{.pid = request.pid,
              .address = request.address,
              .file = {.major = request.major,
                       .minor = request.minor,
                       .inode = request.inode,
                       .generation = request.generation},
              .name = std::string(*name),
              .seen_ns = request.seen_ns};
  if (request.has_known != 0) at.known = request.known;
  at.by_name = request.by_name != 0;
  return at;
}

std::vector<std::byte> reply_with(const Result<MappedFileFacts>& facts) {
  PackedWriter out;
  if (!facts) {
    const int error = facts.error().errno_value();
    out.add(FileReply{.error = error != 0 ? error : EIO,
                      .what_bytes = static_cast<std::uint32_t>(facts.error().what.size())});
    out.add_text(facts.error().what);
    return std::move(out).take();
  }
  FileReply reply{.was_read = facts->was_read ? 1U : 0U,
                  .unchanged = facts->unchanged ? 1U : 0U,
                  .stamp_proves = facts->stamp_proves ? 1U : 0U,
                  .unlinked = facts->unlinked ? 1U : 0U,
                  .generation = facts->generation,
                  .stamp = facts->stamp,
                  .looked = facts->looked,
                  .build_id_bytes = static_cast<std::uint32_t>(facts->build_id.size()),
                  .host_path_bytes = static_cast<std::uint32_t>(facts->host_path.size()),
                  .served_by_bytes = static_cast<std::uint32_t>(facts->served_by.size())};
  out.add(reply);
  out.add_text(as_text(facts->build_id));
  out.add_text(facts->host_path);
  out.add_text(facts->served_by);
  return std::move(out).take();
}

Failure malformed() { return fail(std::errc::bad_message, "a helper's reply is cut off or malformed"); }

Result<MappedFileFacts> facts_in(std::span<const std::byte> bytes) {
  PackedReader in(bytes);
  FileReply reply;
  if (!in.take(reply)) return malformed();
  if (reply.error != 0) {
    const auto what = in.take_text(reply.what_bytes);
    if (!what) return malformed();
    return propagate({.code = {reply.error, std::generic_category()}, .what = std::string(*what)});
  }
  const auto build_id = in.take_text(reply.build_id_bytes);
  const auto host_path = build_id ? in.take_text(reply.host_path_bytes) : std::nullopt;
  const auto served_by = host_path ? in.take_text(reply.served_by_bytes) : std::nullopt;
  if (!served_by || in.left() != 0) return malformed();
  return MappedFileFacts{.build_id = {build_id->begin(), build_id->end()},
                         .host_path = std::string(*host_path),
                         .was_read = reply.was_read != 0,
                         .served_by = std::string(*served_by),
                         .unchanged = reply.unchanged != 0,
                         .stamp = reply.stamp,
                         .looked = reply.looked,
                         .stamp_proves = reply.stamp_proves != 0,
                         .unlinked = reply.unlinked != 0,
                         .generation = reply.generation};
}

}  // namespace

std::vector<std::byte> read_for_broker(std::span<const std::byte> request, const Helpers::Notices& notices) {
  PackedReader in(request);
  while (const auto at = file_request(in)) notices.part(reply_with(read_mapped_file_in_steps(*at, notices.answered)));
  return {};
}

FileWatch::ReadFiles files_reader(Helpers helpers) {
  return [helpers = std::move(helpers)](std::span<const MappedAt> files, const FileWatch::Steps& steps) {
    std::size_t read = 0;
    const Helpers::Notices notices{.answered = steps.answered,
                                   .part =
                                       [&](std::span<const std::byte> part) {
                                         if (read++ < files.size()) steps.done(facts_in(part));
                                       },
                                   .has_helper = steps.has_helper,
                                   .used = steps.used};
    auto reply = helpers.call(request_for(files), notices);
    // The first file without a result is the one that hung, or that ended the helper. But the helper may have been
    // killed from outside, so that file is tried once more.
    if (!reply && reply.error().code == std::errc::broken_pipe && read < files.size())
      reply = helpers.call(request_for(files.subspan(read)), notices);
    if (read < files.size()) {
      ++read;
      steps.done(reply ? malformed() : propagate(reply.error()));
    }
    for (; read < files.size(); ++read) steps.done(fail(std::errc::device_or_resource_busy, "its helper ended before"));
  };
}

}  // namespace flight::broker
