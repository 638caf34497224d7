// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	introspection "github.com/containerd/containerd/api/services/introspection/v1"
	containerd "github.com/containerd/containerd/v2/client"
	"github.com/moby/sys/mountinfo"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	namespace  = "k8s.io"
	startLimit = 60 * time.Second // for a daemon with the race detector on a busy machine
	pullLimit  = 2 * time.Minute
)

// daemon is a containerd with roots, sockets and configuration of its own. It
// ends with the test, and takes its mounts and files with it.
type daemon struct {
	t       testing.TB
	dir     string // everything but the sockets
	sockets string // short: a socket's path has at most 108 bytes
	conf    config

	cmd    *exec.Cmd
	exited chan struct{} // closed once cmd is gone
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
	sockets, err := os.MkdirTemp("/tmp", "pw")
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{t: t, dir: t.TempDir(), sockets: sockets}
	t.Cleanup(d.cleanup)
	d.conf = defaultConfig()
	for _, opt := range opts {
		opt(&d.conf)
	}
	for _, dir := range append([]string{d.path("rules"), d.path("verifiers")}, d.hostsDirs()...) {
		d.mkdir(dir)
	}
	return d
}

func (d *daemon) path(elem ...string) string {
	return filepath.Join(append([]string{d.dir}, elem...)...)
}
func (d *daemon) socket() string  { return filepath.Join(d.sockets, "s") }
func (d *daemon) logFile() string { return d.path("log") }

// run starts the process and waits until it answers for its plugins.
func (d *daemon) run() {
	d.t.Helper()
	d.write(d.path("config.toml"), d.config())
	log, err := os.OpenFile(d.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(binary, "--config", d.path("config.toml"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	launches <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		d.t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() { _ = cmd.Wait(); close(exited) }()
	d.cmd, d.exited = cmd, exited

	d.until("the daemon listens", startLimit, func(ctx context.Context) error { // gRPC would wait a second to try again
		c, err := (&net.Dialer{}).DialContext(ctx, "unix", d.socket())
		if err == nil {
			err = c.Close()
		}
		return err
	})
	d.client, err = containerd.New(d.socket(), containerd.WithDefaultNamespace(namespace), containerd.WithTimeout(startLimit))
	if err == nil {
		d.conn, err = grpc.NewClient("unix://"+d.socket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	}
	if err != nil {
		d.fatal("connect: %v", err)
	}
	d.images = runtimeapi.NewImageServiceClient(d.conn)
	d.until("the daemon answers for its plugins", startLimit, func(ctx context.Context) error {
		_, err := d.client.IntrospectionService().Plugins(ctx)
		return err
	})
}

// plugin returns what the daemon says of a plugin, nil where it has none of
// that type and ID.
func (d *daemon) plugin(typ, id string) *introspection.Plugin {
	d.t.Helper()
	resp, err := d.client.IntrospectionService().Plugins(d.t.Context())
	if err != nil {
		d.fatal("ask for plugins: %v", err)
	}
	for _, p := range resp.GetPlugins() {
		if p.GetType() == typ && p.GetID() == id {
			return p
		}
	}
	return nil
}

func (d *daemon) waitForCRI() {
	d.t.Helper()
	cri := d.plugin("io.containerd.grpc.v1", "cri")
	if cri == nil || cri.GetInitErr() != nil {
		d.fatal("CRI did not start: %v", cri)
	}
	d.until("CRI answers", startLimit, func(ctx context.Context) error {
		_, err := d.images.ListImages(ctx, &runtimeapi.ListImagesRequest{})
		return err
	})
}

// until polls f until it gives no error. The test fails with the daemon's log
// once the limit is over or the daemon has gone.
func (d *daemon) until(what string, limit time.Duration, f func(context.Context) error) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.t.Context()), limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f(ctx)
		if err == nil {
			return
		}
		select {
		case <-d.exited:
			d.fatal("the daemon has exited (%v) before %s: %v", d.cmd.ProcessState, what, err)
		case <-ctx.Done():
			d.fatal("%v is over before %s: %v", limit, what, err)
		case <-tick.C:
		}
	}
}

func (d *daemon) alive() bool {
	if d.cmd == nil {
		return false
	}
	select {
	case <-d.exited:
		return false
	default:
		return true
	}
}

// stop ends the daemon as an operator does.
func (d *daemon) stop() { d.end(syscall.SIGTERM) }

// kill ends the daemon with SIGKILL.
func (d *daemon) kill() { d.end(syscall.SIGKILL) }

func (d *daemon) end(signal syscall.Signal) {
	d.t.Helper()
	if d.alive() {
		_ = d.cmd.Process.Signal(signal)
		select {
		case <-d.exited:
		case <-time.After(30 * time.Second):
			d.t.Errorf("the daemon does not end after %v", signal)
			_ = d.cmd.Process.Kill()
			<-d.exited
		}
	}
	if d.client != nil {
		_ = d.client.Close()
	}
	if d.conn != nil {
		_ = d.conn.Close()
	}
}

// restart starts the daemon again on the same root, with the options on top of
// those it had.
func (d *daemon) restart(opts ...option) {
	d.t.Helper()
	d.stop()
	for _, opt := range opts {
		opt(&d.conf)
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
		d.t.Logf("the daemon's log:\n%s", tail(d.log(), 150))
	}
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(d.dir))
	if err != nil {
		d.t.Errorf("read the mounts: %v", err)
	}
	for _, m := range slices.Backward(mounts) {
		if err := syscall.Unmount(m.Mountpoint, syscall.MNT_DETACH); err != nil {
			d.t.Errorf("unmount %s: %v", m.Mountpoint, err)
		}
	}
	_ = os.RemoveAll(d.sockets)
}

// fatal ends the test; cleanup then shows the daemon's log.
func (d *daemon) fatal(format string, args ...any) {
	d.t.Helper()
	d.t.Fatalf(format, args...)
}

func (d *daemon) mkdir(dir string) {
	d.t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		d.t.Fatal(err)
	}
}

// write replaces a file in one step, so that no reader sees half of it.
func (d *daemon) write(path, content string) {
	d.t.Helper()
	d.mkdir(filepath.Dir(path))
	tmp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := os.WriteFile(tmp, []byte(content), 0o600); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Rename(tmp, path); err != nil {
		d.t.Fatal(err)
	}
}
