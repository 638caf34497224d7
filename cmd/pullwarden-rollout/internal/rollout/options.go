// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Options say how a rollout goes.
type Options struct {
	// Target names what is installed. With another one the rollout begins anew, also after
	// a failure.
	Target string
	// Stages say how many nodes have it at the end of each.
	Stages []Amount
	// MaxUnavailable is how many nodes are worked on at a time, at least one.
	MaxUnavailable Amount
	// InstallTimeout bounds one pod, with the pull of its image.
	InstallTimeout time.Duration
	// ReadyTimeout bounds how long a node may take to be Ready for SettleTime.
	ReadyTimeout time.Duration
	// SettleTime is how long a node has to be Ready without a break. The cluster notices
	// within 50 seconds, by its defaults, that a kubelet is gone.
	SettleTime time.Duration
	// Interval is between two looks at the cluster; while nothing is under way it is 12 times as long.
	Interval time.Duration
}

// Amount is a number of nodes, or a share of them.
type Amount struct {
	count   int
	percent int // 0 = count holds
}

// ParseAmount reads a number such as "3", or a share such as "10%".
func ParseAmount(text string) (Amount, error) {
	number, isShare := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || isShare && n > 100 {
		return Amount{}, fmt.Errorf("%q: allowed are a number of nodes from 1, and a share from 1%% to 100%%", text)
	}
	if isShare {
		return Amount{percent: n}, nil
	}
	return Amount{count: n}, nil
}

// of returns how many nodes that is of all, rounded up.
func (a Amount) of(all int) int {
	if a.percent > 0 {
		return (all*a.percent + 99) / 100
	}
	return min(a.count, all)
}

// stage returns how many nodes may have the target by the end of the stage that is under
// way, and its number, when that many have it. After the last stage there are no more.
func (o *Options) stage(done, all int) (size, number int) {
	for i, a := range o.Stages {
		if size = a.of(all); size > done {
			return size, i + 1
		}
	}
	return done, len(o.Stages)
}
