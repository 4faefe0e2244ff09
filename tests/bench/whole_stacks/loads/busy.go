// SPDX-License-Identifier: Apache-2.0

// A load for the stacks line: a tree of interface calls, with sorting, maps and garbage at its ends, in two goroutines.
package main

import (
	"fmt"
	"math"
	"sort"
)

type node interface{ value(x float64) float64 }
type words struct{}
type sorted struct{}
type sum struct{ left, right node }

func (words) value(x float64) float64 {
	seen := map[string]int{}
	for i := 0; i < 40; i++ {
		seen[fmt.Sprintf("word %d", (int(x*1000)+i*i)%17)]++
	}
	return float64(len(seen))
}

func (sorted) value(x float64) float64 {
	values := make([]float64, 200)
	for i := range values {
		values[i] = math.Mod(x*float64(i+7)*1.37, 1)
	}
	sort.Slice(values, func(a, b int) bool { return values[a] < values[b] })
	return values[100]
}

func (s sum) value(x float64) float64 { return s.left.value(x*0.99) + s.right.value(x*0.5) }

func tree(depth int) node {
	switch {
	case depth == 0:
		return words{}
	case depth%2 == 0:
		return sum{words{}, tree(depth - 1)}
	}
	return sum{sorted{}, tree(depth - 1)}
}

func work() {
	root := tree(20)
	for i, total := 0, 0.0; total < 1e300; i++ {
		total += root.value(float64(i%10) + 0.5)
	}
}

func main() {
	go work()
	work()
}
