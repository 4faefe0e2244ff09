// SPDX-License-Identifier: Apache-2.0
#include "libcore/profile/joined.hpp"

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace flight {
namespace {

class Joiner {
 public:
  explicit Joiner(SnapshotProfile& out) : out_(out) {
    static_cast<void>(out_.texts.id_of(""));  // number 0
    out_.objects.emplace_back();              // the unknown one
  }

  void add(const SnapshotProfile& from, std::uint32_t from_root, std::uint32_t to_root, StackValue StackValues::*to) {
    const std::vector<std::uint32_t> frames = frames_of(from);
    const std::vector<StackNode>& nodes = from.tree.nodes();
    std::vector<std::uint32_t> same(nodes.size());  // 0: of another event
    for (std::uint32_t i = 1; i < nodes.size(); ++i) {
      if (nodes[i].frame == FrameTable::kRoot) {
        same[i] = i == from_root ? to_root : 0;
        continue;
      }
      const std::uint32_t parent = same[nodes[i].parent];
      if (parent == 0) continue;
      same[i] = out_.tree.child(parent, frames[nodes[i].frame]);
      StackValues values{.all = nodes[i].self.all, .before = {}, .now = {}};
      values.*to = values.all;
      out_.tree.add(same[i], values);
    }
  }
  void finish() { out_.frames = frames_.all(); }

 private:
  // The numbers of its frames here.
  [[nodiscard]] std::vector<std::uint32_t> frames_of(const SnapshotProfile& from) {
    std::vector<std::uint32_t> out;
    out.reserve(from.frames.size());
    for (const StackFrame& frame : from.frames) {
      if (frame.kind == StackFrameKind::root || frame.kind == StackFrameKind::others) {
        out.push_back(frame.kind == StackFrameKind::root ? FrameTable::kRoot : FrameTable::kOthers);
        continue;
      }
      StackFrame same{.kind = frame.kind, .name = out_.texts.id_of(from.texts[frame.name]), .object = 0, .offset = 0};
      if (frame.kind == StackFrameKind::code && frame.object != 0) {
        same.object = object_of(from.objects[frame.object], frame.name == 0);
        if (frame.name == 0) same.offset = frame.offset;
      }
      out.push_back(frames_.number_of(same));
    }
    return out;
  }

  [[nodiscard]] std::uint32_t object_of(const CodeObject& object, bool by_build) {
    std::string key = object.name;
    key += '\0';
    key += static_cast<char>(object.kind);
    key += by_build ? 'b' : '-';
    for (std::size_t i = 0; by_build && i < object.build_id.size; ++i)
      key += static_cast<char>(object.build_id.bytes[i]);
    const auto [known, added] = objects_.try_emplace(std::move(key), static_cast<std::uint32_t>(out_.objects.size()));
    if (added) out_.objects.push_back(object);
    return known->second;
  }

  SnapshotProfile& out_;
  FrameTable frames_;
  std::unordered_map<std::string, std::uint32_t> objects_;
};

}  // namespace

SnapshotProfile joined(const SnapshotProfile& before, std::size_t before_event, const SnapshotProfile& now,
                       std::size_t now_event) {
  SnapshotProfile out;
  ProfileEvent event = now.events[now_event];
  event.root = out.tree.add_root();
  Joiner joiner(out);
  joiner.add(before, before.events[before_event].root, event.root, &StackValues::before);
  joiner.add(now, now.events[now_event].root, event.root, &StackValues::now);
  joiner.finish();
  out.events.push_back(std::move(event));
  return out;
}

}  // namespace flight
