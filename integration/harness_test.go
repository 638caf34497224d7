// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestHarness holds what the other tests build on, without pullwarden: it passes
// with any containerd.
func TestHarness(t *testing.T) {
	t.Parallel()
	r := resolvertest.New(t)
	var d *daemon
	t.Run("daemon", func(t *testing.T) {
		d = start(t, onlySection(), nativeRuntime())
		d.origin("registry.test", r)
		dgst := d.push(r, "app:1", resolvertest.Image(1, 2, 1000))
		const ref = "registry.test/app:1"

		id := d.mustPull(ref)
		want(t, "target", d.target(ref), dgst)
		want(t, "image ID", d.imageStatus(ref).GetImage().GetId(), id)
		isRunnable(d, ref)

		d.restart()
		want(t, "images after a restart", len(d.listed()), 1)
		d.kill()
		d.restart()
		want(t, "images after a kill", len(d.listed()), 1)
		isRunnable(d, ref)

		mark := d.mark()
		d.mustPull(ref, runtimeHandler("native"))
		if err := d.runnable(t.Context(), ref, "native"); err != nil {
			t.Error(err)
		}
		if len(d.entries(mark, "Pulled image", ref)) != 1 {
			t.Error("the log does not tell of the pull")
		}
		d.setLabels(ref, map[string]string{"a": "b"})
		want(t, "label", d.labels(ref)["a"], "b")
		d.setLabels(ref, map[string]string{"a": ""})
		want(t, "label", d.labels(ref)["a"], "")

		d.remove(ref)
		want(t, "target once removed", d.target(ref), "")
		_, err := d.pull("registry.test/app:2")
		want(t, "code", status.Code(err), codes.NotFound)
	})
	if d == nil {
		return
	}
	for _, dir := range []string{d.dir, d.sockets} {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s is left behind: %v", dir, err)
		}
	}
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(d.dir))
	if err != nil || len(mounts) > 0 {
		t.Errorf("mounts are left behind: %v %v", mounts, err)
	}
	if d.alive() {
		t.Error("the daemon is left behind")
	}
}

func (d *daemon) listed() []*runtimeapi.Image {
	d.t.Helper()
	resp, err := d.images.ListImages(d.t.Context(), &runtimeapi.ListImagesRequest{})
	if err != nil {
		d.fatal("list images: %v", err)
	}
	return resp.GetImages()
}

func isRunnable(d *daemon, ref string) {
	d.t.Helper()
	if err := d.runnable(d.t.Context(), ref, "overlayfs"); err != nil {
		d.t.Errorf("%s cannot run: %v", ref, err)
	}
}

// BenchmarkStart tells what a daemon costs a test.
func BenchmarkStart(b *testing.B) {
	for range b.N {
		began := time.Now()
		d := start(b)
		b.ReportMetric(time.Since(began).Seconds(), "s/start")
		began = time.Now()
		d.stop()
		b.ReportMetric(time.Since(began).Seconds(), "s/stop")
	}
}
