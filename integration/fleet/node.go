// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"

	"github.com/pullwarden/pullwarden/plugin/engine"
	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/store"
)

const (
	tagSuffix  = ":1" // each repository has one tag
	originHost = "registry.test"
	mirrorHost = "mirror.test"

	// How long a connection may take, as in docs/performance.md.
	shortDial = time.Second
	longDial  = 30 * time.Second
)

// node is one node of a fleet: the engine on its resolver, as the daemon wires them.
type node struct {
	fleet    *fleet
	id       int
	random   *rand.Rand
	records  *records
	resolver *resolver.Resolver
	engine   *engine.Engine
	stock    *stock
	incoming chan *start // nil = the node reboots
	starts   starts
}

func newNode(f *fleet, id int) *node {
	n := &node{
		fleet: f, id: id, random: rand.New(rand.NewPCG(uint64(id), 1)), //nolint:gosec // no secret
		records: newRecords(&f.catalog), incoming: make(chan *start, 8),
	}
	if f.arm.Stock {
		n.stock = newStock(f, id)
	} else {
		n.boot()
	}
	return n
}

// boot starts the daemon of a node: it knows no tokens, no connections and no trouble.
func (n *node) boot() {
	f := n.fleet
	n.resolver = resolver.New(resolver.Options{Hosts: n.hosts})
	n.engine = &engine.Engine{
		Rules:   func(context.Context) (*policy.Rules, error) { return f.rules, nil },
		Records: n.records, Content: n.records, Sources: n.records, Marks: n.records, Proofs: n.records,
		Registry: n.resolver, Now: time.Now,
	}
	if !f.arm.Aligned {
		n.engine.Node = uint64(n.id) + 1
	}
}

// close ends what goes on in the background.
func (n *node) close() {
	if n.stock == nil {
		_ = n.engine.Close()
		_ = n.resolver.Close()
	}
}

// hosts are those of hosts.toml: the mirror, if there is one, before the registry.
func (n *node) hosts(context.Context, resolver.Credentials, config.UpdateClientFunc) docker.RegistryHosts {
	return func(string) (list []docker.RegistryHost, err error) {
		for _, r := range n.fleet.registries() {
			dial := shortDial
			if r.host == originHost {
				dial = longDial
			}
			list = append(list, docker.RegistryHost{
				Client:     &http.Client{Transport: &client{registry: r, address: n.address(), dialTimeout: dial}},
				Authorizer: docker.NewDockerAuthorizer(),
				Scheme:     "https", Host: r.host, Path: "/v2",
				Capabilities: docker.HostCapabilityPull | docker.HostCapabilityResolve,
			})
		}
		return list, nil
	}
}

// address is the one from which registries see the node.
func (n *node) address() int {
	if n.fleet.scenario.Addresses == 0 {
		return n.id
	}
	return n.id % n.fleet.scenario.Addresses
}

// robot stands for the credentials that all pods of a fleet have.
const robot store.Fingerprint = "robot"

func credentials(string) (string, string, error) { return "robot", "secret", nil }

// ensure asks the engine as the kubelet of a starting pod does. It reports whether a
// failure was the reason to use the cached image.
func (n *node) ensure(ctx context.Context, repository string) (stale bool, err error) {
	if n.stock != nil {
		return false, n.stock.pull(ctx, n, repository)
	}
	name := repository + tagSuffix
	req := engine.Request{
		Subject:     policy.Subject{Image: policy.Image{Repository: repository, Tag: tagSuffix[1:]}, Namespace: "default"},
		Name:        name,
		Caller:      store.Anonymous,
		Snapshotter: "overlayfs",
		Runtime:     containerd{n, name},
	}
	if n.fleet.scenario.Registry.TokenTTL == 0 {
		req.Credentials, req.Caller = credentials, robot
	}
	if n.fleet.arm.Starts {
		if _, err := n.records.Get(ctx, name); err == nil {
			s := n.engine.Start(ctx, req, true)
			if !s.Governed || s.Reuse {
				return false, nil
			}
			req.Started = true
		}
	}
	o, err := n.engine.Ensure(ctx, req)
	return o.Kind == engine.UsedCached, err
}

// preload puts an image on the node that was checked at that time.
func (n *node) preload(repository string, i *image, checked time.Time) {
	holder := store.Anonymous
	if n.fleet.scenario.Registry.TokenTTL == 0 {
		holder = robot
	}
	state := store.State{
		PullSource: repository + tagSuffix, PulledAt: checked, Restricted: true,
		Verified: store.Verified{Digest: i.manifest.desc.Digest, At: checked, By: originHost},
		Access:   map[store.Fingerprint]store.Proof{holder: {At: checked, By: originHost}},
	}
	n.records.put(i, func(store.State) store.State { return state }, repository+tagSuffix, repository+"@"+i.manifest.desc.Digest.String())
}
