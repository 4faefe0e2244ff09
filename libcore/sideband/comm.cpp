// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/comm.hpp"

#include "libcore/sideband/gaps.hpp"

namespace flight {

Comm to_comm(std::string_view name) {
  Comm comm{};
  name.copy(comm.data(), comm.size() - 1);
  return comm;
}

Comm to_comm(const CommRecord& record) {
  Comm comm = to_comm(record.name);
  comm.back() = record.lost ? '\1' : '\0';
  return comm;
}

Comm lost_comm() { return to_comm(CommRecord{.pid = 0, .tid = 0, .name = kLostName, .lost = true}); }

}  // namespace flight
