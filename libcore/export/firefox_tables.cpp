// SPDX-License-Identifier: Apache-2.0
#include "libcore/export/firefox_tables.hpp"

#include <fmt/format.h>

#include <array>

namespace flight {
namespace {

// Numbers in kCategories of firefox.cpp.
int category_of(CodeKind kind) {
  switch (kind) {
    case CodeKind::file:
      return 1;
    case CodeKind::kernel:
    case CodeKind::generated:
      return 2;
    case CodeKind::memory:
      return 3;
    case CodeKind::unknown:
      break;
  }
  return 0;
}

// A GUID, whose first three numbers are little-endian in the build-id, and an age of 0.
std::string breakpad_id(const BuildId& build_id) {
  constexpr std::array<std::size_t, 16> kOrder{3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
  if (build_id.size == 0) return "";
  std::string out;
  for (const std::size_t at : kOrder) out += fmt::format("{:02X}", build_id.bytes.at(at));
  return out + "0";
}

std::string code_id(const BuildId& build_id) {
  std::string out;
  for (std::size_t i = 0; i < build_id.size; ++i) out += fmt::format("{:02x}", build_id.bytes.at(i));
  return out;
}

}  // namespace

void write_numbers(JsonPieces& out, std::string_view key, std::size_t first, std::size_t count) {
  out.format("\"{}\":[", key);
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) out.raw(",");
    out.format("{}", first + i);
  }
  out.raw("]");
}

FirefoxTables::FirefoxTables(const SnapshotProfile& profile, std::uint32_t root)
    : profile_(profile),
      stack_of_(profile.tree.nodes().size(), kNone),
      frame_of_(profile.frames.size(), kNone),
      object_of_(profile.objects.size(), kNone) {
  const std::vector<StackNode>& nodes = profile.tree.nodes();
  std::vector<bool> inside(nodes.size());
  inside[root] = true;
  for (std::uint32_t i = 1; i < nodes.size(); ++i) {
    if (nodes[i].frame == FrameTable::kRoot) continue;
    inside[i] = inside[nodes[i].parent];
    // The name of the thread is no frame here: each thread has its own track.
    if (inside[i] && profile.frames[nodes[i].frame].kind != StackFrameKind::task) add(i);
  }
}

void FirefoxTables::add(std::uint32_t node) {
  stack_of_[node] = static_cast<std::uint32_t>(stacks_.size());
  stacks_.push_back(node);
  const std::uint32_t frame = profile_.tree.nodes()[node].frame;
  if (frame_of_[frame] != kNone) return;
  frame_of_[frame] = static_cast<std::uint32_t>(frames_.size());
  frames_.push_back(frame);
  const std::uint32_t object = code_of(frame);
  if (object == 0 || object_of_[object] != kNone) return;
  object_of_[object] = static_cast<std::uint32_t>(objects_.size());
  objects_.push_back(object);
}

std::uint32_t FirefoxTables::code_of(std::uint32_t frame) const {
  const StackFrame& what = profile_.frames[frame];
  return what.kind == StackFrameKind::code ? what.object : 0;
}

void FirefoxTables::write_libs(JsonPieces& out) const {
  for (std::size_t i = 0; i < objects_.size(); ++i) {
    const CodeObject& object = profile_.objects[objects_[i]];
    out.raw(i == 0 ? R"({"arch":"","name":)" : R"(,{"arch":"","name":)");
    out.text(object.short_name());
    out.raw(R"(,"path":)");
    out.text(object.name);
    out.raw(R"(,"debugName":)");
    out.text(object.short_name());
    out.raw(R"(,"debugPath":)");
    out.text(object.name);
    out.format(R"(,"breakpadId":"{}","codeId":)", breakpad_id(object.build_id));
    if (object.build_id.size == 0)
      out.raw("null}");
    else
      out.format(R"("{}"}})", code_id(object.build_id));
  }
}

void FirefoxTables::write_shared(JsonPieces& out, const std::vector<std::string>& more_texts) const {
  write_stacks(out);
  write_frames(out);
  write_functions(out);
  out.raw(R"("resourceTable":{)");
  write_numbers(out, "lib", 0, objects_.size());
  out.raw(",");
  write_numbers(out, "name", frames_.size(), objects_.size());
  out.raw(",");
  out.column_of("host", objects_.size(), "null");
  out.raw(",");
  out.column_of("type", objects_.size(), "1");  // a library
  out.format(R"(,"length":{}}},)", objects_.size());
  out.raw(R"("nativeSymbols":{"libIndex":[],"address":[],"name":[],"functionSize":[],"length":0},)");
  out.raw(R"("sources":{"uuid":[],"filename":[],"length":0},)");
  write_texts(out, more_texts);
}

void FirefoxTables::write_stacks(JsonPieces& out) const {
  const std::vector<StackNode>& nodes = profile_.tree.nodes();
  out.raw(R"("stackTable":{)");
  out.column("frame", stacks_, [&](std::uint32_t node) { out.format("{}", frame_of_[nodes[node].frame]); });
  out.raw(",");
  out.column("prefix", stacks_, [&](std::uint32_t node) {
    if (const std::uint32_t prefix = stack_of_[nodes[node].parent]; prefix == kNone)
      out.raw("null");
    else
      out.format("{}", prefix);
  });
  out.format(R"(,"length":{}}},)", stacks_.size());
}

void FirefoxTables::write_frames(JsonPieces& out) const {
  out.raw(R"("frameTable":{)");
  out.column("address", frames_, [&](std::uint32_t frame) {
    if (code_of(frame) == 0)
      out.raw("-1");
    else
      out.format("{}", profile_.frames[frame].offset);
  });
  out.raw(",");
  out.column("category", frames_,
             [&](std::uint32_t frame) { out.format("{}", category_of(profile_.objects[code_of(frame)].kind)); });
  out.raw(",");
  write_numbers(out, "func", 0, frames_.size());
  for (const std::string_view key : {"inlineDepth", "subcategory"}) {
    out.raw(",");
    out.column_of(key, frames_.size(), "0");
  }
  for (const std::string_view key : {"nativeSymbol", "innerWindowID", "line", "column"}) {
    out.raw(",");
    out.column_of(key, frames_.size(), "null");
  }
  out.format(R"(,"length":{}}},)", frames_.size());
}

void FirefoxTables::write_functions(JsonPieces& out) const {
  out.raw(R"("funcTable":{)");
  write_numbers(out, "name", 0, frames_.size());
  out.raw(",");
  out.column("resource", frames_, [&](std::uint32_t frame) {
    if (const std::uint32_t object = code_of(frame); object == 0)
      out.raw("-1");
    else
      out.format("{}", object_of_[object]);
  });
  for (const std::string_view key : {"isJS", "relevantForJS"}) {
    out.raw(",");
    out.column_of(key, frames_.size(), "false");
  }
  for (const std::string_view key : {"source", "lineNumber", "columnNumber"}) {
    out.raw(",");
    out.column_of(key, frames_.size(), "null");
  }
  out.format(R"(,"length":{}}},)", frames_.size());
}

void FirefoxTables::write_texts(JsonPieces& out, const std::vector<std::string>& more_texts) const {
  out.raw(R"("stringArray":[)");
  bool first = true;
  const auto add_text = [&](std::string_view name) {
    if (!first) out.raw(",");
    first = false;
    out.text(name);
  };
  for (const std::uint32_t frame : frames_) add_text(profile_.text_of(frame));
  for (const std::uint32_t object : objects_) add_text(profile_.objects[object].short_name());
  for (const std::string& name : more_texts) add_text(name);
  out.raw("]");
}

}  // namespace flight
