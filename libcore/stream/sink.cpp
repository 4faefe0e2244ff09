// SPDX-License-Identifier: Apache-2.0
#include "libcore/stream/sink.hpp"

namespace flight {

FilterChain::FilterChain(const std::vector<MakeFilter>& makers, StreamSink& last) : first_(&last) {
  for (auto make = makers.rbegin(); make != makers.rend(); ++make) {
    filters_.push_back((*make)(*first_));
    first_ = filters_.back().get();
  }
}

}  // namespace flight
