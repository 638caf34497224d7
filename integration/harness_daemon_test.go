// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	introspection "github.com/containerd/containerd/api/services/introspection/v1"
	containerd "github.com/containerd/containerd/v2/client"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	testdaemon "github.com/pullwarden/pullwarden/integration/daemon"
)

const (
	namespace  = testdaemon.Namespace
	startLimit = testdaemon.StartLimit
	pullLimit  = 2 * time.Minute
)

// daemon is a containerd with roots, sockets and configuration of its own. It
// ends with the test, and takes its mounts and files with it. What goes wrong
// with it ends the test.
type daemon struct {
	t       testing.TB
	process *testdaemon.Daemon
	dir     string // everything but the sockets
	sockets string
	// The clients of the running daemon.
	client *containerd.Client
	conn   *grpc.ClientConn
	images runtimeapi.ImageServiceClient
}

// start starts a daemon with pullwarden enabled and waits until CRI answers.
func start(t testing.TB, opts ...option) *daemon {
	t.Helper()
	d := prepareDaemon(t, opts...)
	d.run()
	d.waitForCRI()
	return d
}

// prepareDaemon makes the directories of a daemon that run then starts.
func prepareDaemon(t testing.TB, opts ...option) *daemon {
	t.Helper()
	c := config{Binary: binary, Dir: t.TempDir(), Section: []string{"enabled = true"}, NoSync: true}
	for _, opt := range opts {
		opt(&c)
	}
	p, err := testdaemon.New(c)
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{t: t, process: p, dir: p.Path(), sockets: filepath.Dir(p.Address())}
	t.Cleanup(d.cleanup)
	return d
}

func (d *daemon) path(elem ...string) string { return d.process.Path(elem...) }
func (d *daemon) hostsDirs() []string        { return d.process.HostsDirs() }
func (d *daemon) alive() bool                { return d.process.Alive() }

// context is that of the test, and lasts through its cleanup.
func (d *daemon) context() context.Context { return context.WithoutCancel(d.t.Context()) }

func (d *daemon) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// run starts the process and waits until it answers for its plugins.
func (d *daemon) run() {
	d.t.Helper()
	err := d.process.Run(d.context())
	d.client, d.conn, d.images = d.process.Client, d.process.Conn, d.process.Images
	d.must(err)
}

// plugin returns what the daemon says of a plugin, nil where it has none of
// that type and ID.
func (d *daemon) plugin(typ, id string) *introspection.Plugin {
	d.t.Helper()
	p, err := d.process.Plugin(d.context(), typ, id)
	d.must(err)
	return p
}

func (d *daemon) waitForCRI() {
	d.t.Helper()
	d.must(d.process.WaitForCRI(d.context()))
}

// stop ends the daemon as an operator does.
func (d *daemon) stop() {
	d.t.Helper()
	if err := d.process.Stop(); err != nil {
		d.t.Error(err)
	}
}

// kill ends the daemon with SIGKILL.
func (d *daemon) kill() {
	d.t.Helper()
	if err := d.process.Kill(); err != nil {
		d.t.Error(err)
	}
}

// restart starts the daemon again on the same root, with the options on top of
// those it had.
func (d *daemon) restart(opts ...option) {
	d.t.Helper()
	d.stop()
	for _, opt := range opts {
		opt(&d.process.Options)
	}
	d.run()
	d.waitForCRI()
}

// cleanup leaves nothing behind, and fails the test for what a daemon must
// never log.
func (d *daemon) cleanup() {
	d.stop()
	for _, bad := range []string{"WARNING: DATA RACE", "panic:", "fatal error:"} {
		if log := d.log(); strings.Contains(log, bad) {
			d.t.Errorf("the daemon's log has %q:\n%s", bad, around(log, bad))
		}
	}
	if d.t.Failed() {
		d.t.Logf("the daemon's log:\n%s", testdaemon.Tail(d.log(), 150))
	}
	if err := d.process.Close(); err != nil {
		d.t.Error(err)
	}
}

// fatal ends the test; cleanup then shows the daemon's log.
func (d *daemon) fatal(format string, args ...any) {
	d.t.Helper()
	d.t.Fatalf(format, args...)
}

func (d *daemon) mkdir(dir string) {
	d.t.Helper()
	d.must(os.MkdirAll(dir, 0o700))
}

// write replaces a file in one step, so that no reader sees half of it.
func (d *daemon) write(path, content string) {
	d.t.Helper()
	d.must(d.process.Write(path, content))
}
