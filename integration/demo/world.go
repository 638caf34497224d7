// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// The names of the story.
const (
	registryName = "registry.example.com"
	mirrorName   = "the mirror"
	webRepo      = "shop/web"
	ledgerRepo   = "bank/ledger"
	tag          = "stable"
	webImage     = registryName + "/" + webRepo + ":" + tag
	ledgerImage  = registryName + "/" + ledgerRepo + ":" + tag
)

// How far away the registries are, by round-trip time.
const (
	registryDelay = 20 * time.Millisecond
	mirrorDelay   = 2 * time.Millisecond
)

// section is pullwarden's part of config.toml, which names the directory of
// the rules too.
var section = []string{
	`enabled        = true`,
	`default_policy = "Always"`,
	`resolve_from   = "Origin"   # mirrors do not say what a tag is`,
	`verify_timeout = "10s"`,
}

// ruleFile is the node's one rule file.
const (
	ruleFile = "10-demo.toml"
	rules    = `[[rule]]
images        = ["registry.example.com/**"]
namespaces    = ["batch"]
policy        = "IfDigestChanged"
pull_deadline = "0s"         # nobody waits where the cached image does

[[rule]]
images = ["registry.example.com/**"]
policy = "IfDigestChanged"   # pull only what changed
govern = "Starts"            # also for pods that say IfNotPresent
hints  = "Tighten"           # pods may be stricter, never laxer
`
)

// secret is what the private image takes.
var secret = credentials{user: "bank", password: "correct horse"}

type credentials struct{ user, password string }

// world is the node and the registries around it.
type world struct {
	registry, mirror *resolvertest.Registry
	node             *node.Node
	builds           [3]digest.Digest // of the web image
	hurry            func()           // ends the slowness of the mirror
}

// open starts everything. On an error nothing is left.
func open(ctx context.Context, binary string) (*world, error) {
	w := &world{}
	err := w.startRegistries(ctx)
	if err == nil {
		err = w.startNode(ctx, binary)
	}
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

func (w *world) startRegistries(ctx context.Context) (err error) {
	w.registry, err = resolvertest.Start(resolvertest.WithTLS(), resolvertest.WithDelay(registryDelay), //nolint:contextcheck // it lives until it is closed
		resolvertest.WithTokenAuth(map[string]string{secret.user: secret.password}))
	if err != nil {
		return err
	}
	w.registry.Allow(func(user, repository string) bool { return repository == webRepo || user == secret.user })
	w.mirror, err = resolvertest.Start(resolvertest.WithDelay(mirrorDelay)) //nolint:contextcheck // it lives until it is closed
	if err != nil {
		return err
	}
	if _, err := w.registry.Push(ctx, ledgerRepo+":"+tag, resolvertest.Image(10, 1, 5_000)); err != nil {
		return err
	}
	return w.release(ctx, 0)
}

func (w *world) startNode(ctx context.Context, binary string) (err error) {
	w.node, err = node.New(node.Options{Binary: binary, Section: section})
	if err == nil {
		err = w.node.Serve(registryName, w.registry, w.mirror)
	}
	if err == nil {
		err = w.node.WriteRules(ruleFile, rules)
	}
	if err != nil {
		return err
	}
	if err := w.node.Start(ctx); err != nil {
		return fmt.Errorf("start the node: %w", err)
	}
	return nil
}

// release pushes a build of the web image, which the mirror then has too.
func (w *world) release(ctx context.Context, build int) (err error) {
	image := resolvertest.Image(int64(build), 3, 200_000)
	for _, r := range []*resolvertest.Registry{w.registry, w.mirror} {
		if w.builds[build], err = r.Push(ctx, webRepo+":"+tag, image); err != nil {
			return err
		}
	}
	return nil
}

// restore ends the outage of the registry. Another hosts.toml has the node forget it: a busy
// machine may have taken so long for a connection that is refused that it is remembered as
// a time-out, for some seconds.
func (w *world) restore() error {
	server, err := w.node.Server(w.registry)
	if err != nil {
		return err
	}
	mirror, err := w.node.Mirror(w.mirror, "# the registry is back")
	if err == nil {
		err = w.node.WriteHosts(registryName, server+mirror)
	}
	return errors.Join(err, w.registry.Restore())
}

// releaseSlowly is release with a mirror that serves no layer of it until awaitRelease.
func (w *world) releaseSlowly(ctx context.Context, build int) error {
	if err := w.release(ctx, build); err != nil {
		return err
	}
	w.hurry = w.mirror.Hang(resolvertest.Blobs)
	return nil
}

// awaitRelease waits until the node has a build that was released slowly.
func (w *world) awaitRelease(ctx context.Context, build int) error {
	w.hurry()
	ctx, cancel := context.WithTimeout(ctx, pullLimit)
	defer cancel()
	for {
		record, err := w.node.Record(ctx, webImage)
		if err != nil || record.Target.Digest == w.builds[build] {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the node does not get build %s of %s: %w", w.builds[build], webImage, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// close leaves nothing behind.
func (w *world) close() (err error) {
	if w.node != nil {
		err = w.node.Close()
	}
	for _, r := range []*resolvertest.Registry{w.registry, w.mirror} {
		if r != nil {
			r.Close()
		}
	}
	return err
}
