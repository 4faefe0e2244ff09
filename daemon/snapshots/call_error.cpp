// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshots/call_error.hpp"

#include <cerrno>
#include <string_view>

#include "daemon/store/budget.hpp"
#include "libcore/base/spare_descriptors.hpp"

namespace flight::daemon {
namespace {

std::string_view what_next(int error_number) {
  if (is_full(error_number)) return " Free some space there, for instance with `flightctl remove ID`, and try again.";
  if (error_number == EACCES) return " The directory must belong to flightd's user and be writable for its group.";
  return "";
}

}  // namespace

CallError snapshot_call_error(const Error& error, bool broker_gone) {
  if (error.code == std::errc::operation_canceled) return stopping();
  const int number = error.errno_value();
  if (error.code == std::errc::no_message_available) return write_failed(number, "", error.what);
  if (broker_gone)
    return write_failed(
        number, "",
        fmt::format("flightd-broker is gone: this snapshot was not written, and nothing is recorded until another "
                    "broker runs; the content of the rings is in the snapshot 'broker-lost', if there was space ({})",
                    error.what));
  const std::string what = fmt::format("{}{}. This snapshot was not written; recording continues.{}", error.what,
                                       descriptor_advice(error), what_next(number));
  return is_full(number) ? store_full(what) : write_failed(number, "", what);
}

}  // namespace flight::daemon
