// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

const (
	// registry is the name of the registry in references.
	registry = "registry.bench"
	// roundTrip is that of each connection to a registry.
	roundTrip = 20 * time.Millisecond

	// layers is how many the image of checks and storms has. It matters to stock
	// containerd, which looks at each.
	layers = 7

	user, password = "bench", "a password"
)

// side is one of the two that are compared.
type side int

const (
	stock side = iota
	ours
)

// String names the side for errors.
func (s side) String() string { return [...]string{"stock containerd", "pullwarden"}[s] }

// bench is what all rows have in common.
type bench struct {
	binaries [2]string // by side
}

// pair is both daemons with the registries that both ask.
type pair struct {
	origin *resolvertest.Registry
	mirror *resolvertest.Registry // in front of origin; nil for none
	nodes  [2]*benchNode          // by side
}

// options are what rows want of a pair. The zero value is a registry with
// roundTrip, no mirror, and the policy Always.
type options struct {
	near   bool     // the registry has no round-trip time
	http1  bool     // the registry does not speak HTTP/2
	mirror bool     // there is a mirror
	rules  string   // a rule file; empty for none
	images []string // lines of CRI's image plugin
}

// discardLayers is a setting with which stock CRI pulls without the transfer
// service.
const discardLayers = "discard_unpacked_layers = true"

// with adds the lines of CRI's image plugin to what a row is about.
func with(what string, images []string) string {
	if len(images) == 0 {
		return what
	}
	return what + ", with " + strings.Join(images, ", ")
}

// withPair runs f on a new pair.
func (b *bench) withPair(ctx context.Context, o options, f func(p *pair) error) (err error) {
	p := &pair{}
	defer func() { err = errors.Join(err, p.close()) }()
	delay := resolvertest.WithDelay(roundTrip)
	if o.near {
		delay = resolvertest.WithDelay(0)
	}
	of := []resolvertest.Option{resolvertest.WithTLS(), resolvertest.WithTokenAuth(map[string]string{user: password}), delay}
	if o.http1 {
		of = append(of, resolvertest.WithoutHTTP2())
	}
	if p.origin, err = resolvertest.Start(of...); err != nil { //nolint:contextcheck // it ends by Close
		return err
	}
	if o.mirror {
		if p.mirror, err = resolvertest.Start(resolvertest.WithTLS(), delay); err != nil { //nolint:contextcheck // it ends by Close
			return err
		}
	}
	for s := range p.nodes {
		if p.nodes[s], err = b.startNode(ctx, p, side(s), o); err != nil {
			return err
		}
	}
	return f(p)
}

func (b *bench) startNode(ctx context.Context, p *pair, s side, opts options) (_ *benchNode, err error) {
	o := node.Options{Binary: b.binaries[s], LogLevel: "info", Images: opts.images}
	if s == ours {
		o.Section = []string{"enabled = true", "default_policy = 'Always'"}
	}
	made, err := node.New(o)
	if err != nil {
		return nil, err
	}
	n := &benchNode{Node: made, side: s}
	if err := n.start(ctx, p, opts.rules); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", s, err), made.Close())
	}
	return n, nil
}

// close ends everything that was started.
func (p *pair) close() error {
	var errs []error
	for _, n := range p.nodes {
		if n != nil {
			errs = append(errs, n.Close())
		}
	}
	for _, r := range p.registries() {
		r.Close()
	}
	return errors.Join(errs...)
}

func (p *pair) registries() []*resolvertest.Registry {
	var all []*resolvertest.Registry
	for _, r := range []*resolvertest.Registry{p.origin, p.mirror} {
		if r != nil {
			all = append(all, r)
		}
	}
	return all
}

// push stores an image under a reference in all registries, and returns what
// the nodes call it.
func (p *pair) push(ctx context.Context, ref string, image resolvertest.Pushable) (string, error) {
	for _, r := range p.registries() {
		if _, err := r.Push(ctx, ref, image); err != nil {
			return "", err
		}
	}
	return registry + "/" + ref, nil
}

// pushed is an image of the registries, as a node that has pulled it knows it.
type pushed struct{ ref, id string }

// pushImage stores an image under a reference in all registries.
func (p *pair) pushImage(ctx context.Context, ref string, image v1.Image) (pushed, error) {
	id, err := image.ConfigName()
	if err != nil {
		return pushed{}, err
	}
	name, err := p.push(ctx, ref, image)
	return pushed{name, id.String()}, err
}

// both runs f on one node after the other.
func (p *pair) both(f func(n *benchNode) error) error {
	for _, n := range p.nodes {
		if err := f(n); err != nil {
			return err
		}
	}
	return nil
}

// alternate measures f on both nodes in turn, that many times.
func (p *pair) alternate(rounds int, f func(n *benchNode) (cost, error)) (costs [2]costs, err error) {
	for range rounds {
		err = p.both(func(n *benchNode) error {
			c, err := f(n)
			costs[n.side] = append(costs[n.side], c)
			return err
		})
		if err != nil {
			return costs, err
		}
	}
	return costs, nil
}

// measure times f and counts what the registries see of it.
func (p *pair) measure(f func() error) (cost, error) {
	before := 0
	for _, r := range p.registries() {
		r.Forget()
		before += r.Connections()
	}
	began := time.Now()
	err := f()
	c := cost{took: time.Since(began), connections: -before}
	for _, r := range p.registries() {
		c.requests += r.Count(nil)
		c.connections += r.Connections()
	}
	return c, err
}

// fill gives both nodes that many images under that many repositories each.
func (p *pair) fill(ctx context.Context, count, repositories int) error {
	nodes, ctx := errgroup.WithContext(ctx)
	for _, n := range p.nodes {
		nodes.Go(func() error {
			if err := n.Fill(ctx, registry, count, repositories); err != nil {
				return fmt.Errorf("%s: %w", n.side, err)
			}
			return nil
		})
	}
	return nodes.Wait()
}
