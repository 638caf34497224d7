// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"sync"
	"time"
)

// The arms that most scenarios compare.
var (
	stockAlways = Arm{Name: "stock Always", Stock: true}
	eachStart   = Arm{Name: "max_age 0s", Rules: rules(`policy = "IfDigestChanged"`)}
	tenMinutes  = Arm{Name: "max_age 10m", Rules: rules(`policy = "IfDigestChanged"`, `max_age = "10m"`)}
	hour        = Arm{Name: "max_age 1h", Rules: rules(`policy = "IfDigestChanged"`, `max_age = "1h"`)}
	budgeted    = Arm{Name: "6 checks a minute", Rules: rules(`policy = "IfDigestChanged"`, `checks_per_minute = 6`)}
)

// rules is a file with one rule for all images.
func rules(directives ...string) string {
	text := "[[rule]]\nimages = [\"**\"]\n"
	for _, d := range directives {
		text += d + "\n"
	}
	return text
}

// base is a fleet of 5,000 nodes with 40 pods each, of 20 images, whose pods are replaced
// once an hour: 56 starts a second. It has run for an hour, after which most nodes have asked
// for most of their images. Something happens after ten minutes.
func base(name, title string, arms ...Arm) Scenario {
	return Scenario{
		Name: name, Title: title, Nodes: 5000, Pods: 40, Images: 20, Lifetime: time.Hour,
		Warmup: time.Hour, Length: 30 * time.Minute,
		Registry: Harbor(),
		Steady:   Span{2 * time.Minute, 10 * time.Minute}, After: Span{10 * time.Minute, 30 * time.Minute},
		Arms: arms,
	}
}

// Scenarios lists all of them.
func Scenarios() []Scenario {
	return []Scenario{
		outage("down", "the registry answers 503 for ten minutes", Fault{Kind: Fail}),
		outage("silent", "the registry swallows packets for ten minutes", Fault{Kind: Swallow}),
		outage("slow", "the registry takes eight seconds longer for ten minutes", Fault{Kind: Slow, Latency: 8 * time.Second}),
		outage("limited", "the registry answers 429 for ten minutes", Fault{Kind: Limit429}),
		mirrorDies(), rollout(), pushes(), reboot(), governedStarts(), dockerHub(), ecr(),
	}
}

// outage is a scenario in which the registry has a fault for ten minutes. Recovery is what
// comes after it.
func outage(name, title string, fault Fault) Scenario {
	s := base(name, title, stockAlways, eachStart, tenMinutes)
	fault.From, fault.To = 10*time.Minute, 20*time.Minute
	s.Faults = []Fault{fault}
	s.After.From = fault.To
	return s
}

func mirrorDies() Scenario {
	s := base("mirror", "the mirror in front of the registry swallows packets for ten minutes", stockAlways, eachStart, tenMinutes)
	mirror := Harbor()
	mirror.Name = "mirror"
	s.Mirror = &mirror
	s.MirrorFaults = []Fault{{Kind: Swallow, From: 10 * time.Minute, To: 20 * time.Minute}}
	return s
}

// rollout is a new image for the one pod that each node has of a DaemonSet, on a tenth of
// the nodes at a time.
func rollout() Scenario {
	s := base("rollout", "a rolling update of a DaemonSet, a tenth of the nodes at a time", stockAlways, eachStart, tenMinutes)
	s.Events = func(ctx context.Context, f *fleet) {
		at(ctx, f, 10*time.Minute, func() {
			f.push(0)
			f.roll(ctx, max(1, len(f.nodes)/10))
		})
	}
	return s
}

// readyAfter is how long a pod of a DaemonSet takes from its image to being ready.
const readyAfter = 10 * time.Second

// roll starts a pod of the first image on each node, on so many at a time.
func (f *fleet) roll(ctx context.Context, parallel int) {
	turns := make(chan struct{}, parallel)
	var wg sync.WaitGroup
	for _, n := range f.nodes {
		select {
		case turns <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			pulled := make(chan struct{})
			n.incoming <- &start{repository: f.repository(0), done: func() { close(pulled) }}
			select {
			case <-pulled:
				_ = pause(ctx, readyAfter)
			case <-ctx.Done():
			}
			<-turns
		})
	}
	wg.Wait()
}

// pushes is a tag that moves every ten minutes, another one each time.
func pushes() Scenario {
	s := base("pushes", "a tag is pushed every ten minutes", stockAlways, eachStart, tenMinutes, hour)
	s.Warmup = 2 * time.Hour // images are checked less than once an hour
	s.Events = func(ctx context.Context, f *fleet) {
		for i := range 2 {
			at(ctx, f, time.Duration(i+1)*10*time.Minute, func() { f.push(i) })
		}
	}
	return s
}

// reboot is a power failure: all nodes are back within a minute, and start all of their
// pods.
func reboot() Scenario {
	s := base("reboot", "all nodes reboot after a power failure", stockAlways, eachStart, tenMinutes, budgeted)
	s.Length, s.After.To = 25*time.Minute, 25*time.Minute
	s.Events = func(ctx context.Context, f *fleet) {
		at(ctx, f, 10*time.Minute, func() {
			for _, n := range f.nodes {
				n.incoming <- nil
			}
		})
	}
	return s
}

// bootsWithin is the time in which the nodes of a power failure are back.
const bootsWithin = time.Minute

// reboot has all pods of a node start again when it is back, on a daemon that is new.
func (n *node) reboot() {
	back := time.Now().Add(time.Duration(n.random.Int64N(int64(bootsWithin))))
	if n.stock == nil {
		n.close()
		n.boot()
		n.engine.Started = back
	}
	for i := range n.starts {
		n.starts[i].at, n.starts[i].due, n.starts[i].tries = back, back, 0
	}
}

// governedStarts is govern = "Starts" for containers that live for a minute, on nodes that
// have all checked their images within one minute; and what it would be without jitter.
func governedStarts() Scenario {
	s := base("starts", `govern = "Starts" for containers that live a minute, on nodes that have checked together`)
	s.Nodes, s.Lifetime, s.Pods, s.Images, s.Length = 500, time.Minute, 10, 10, 35*time.Minute
	s.Steady, s.After = Span{10 * time.Minute, 35 * time.Minute}, Span{2 * time.Minute, 35 * time.Minute}
	s.Together, s.Warmup = time.Minute, 0 // else they would be apart by then
	text := rules(`policy = "IfDigestChanged"`, `govern = "Starts"`, `max_age = "10m"`)
	s.Arms = []Arm{
		{Name: "without jitter", Starts: true, Rules: text, Aligned: true},
		{Name: "max_age 10m", Starts: true, Rules: text},
		{Name: "max_age 0s", Starts: true, Rules: rules(`policy = "IfDigestChanged"`, `govern = "Starts"`)},
	}
	return s
}

// dockerHub is a fleet behind 50 addresses, without an account, while a tag moves.
func dockerHub() Scenario {
	s := base("hub", "Docker Hub without an account, behind 50 addresses; a tag is pushed", stockAlways, eachStart, tenMinutes)
	s.Registry, s.Addresses = DockerHub(), 50
	s.Events = func(ctx context.Context, f *fleet) {
		at(ctx, f, 10*time.Minute, func() { f.push(0) })
	}
	return s
}

// ecr is a power failure of a fleet before ECR.
func ecr() Scenario {
	s := reboot()
	s.Name, s.Title = "ecr", "all nodes reboot after a power failure, before ECR's quotas"
	s.Registry = ECR()
	s.Arms = []Arm{stockAlways, eachStart, budgeted}
	return s
}
