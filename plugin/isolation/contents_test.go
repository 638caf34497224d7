// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/plugins/content/local"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	bolt "go.etcd.io/bbolt"
)

const ref = "layer-sha256:1"

var (
	layer   = []byte(strings.Repeat("a layer ", 1000))
	desc    = ocispec.Descriptor{Digest: digest.FromBytes(layer), Size: int64(len(layer))}
	garbage = make([]byte, len(layer))

	alice = Source{Repository: "registry.test/app", Caller: "alice"}.Scope()
	eve   = Source{Repository: "eve.test/app", Caller: "eve"}.Scope()
)

// newContents returns the views of a new content store.
func newContents(t *testing.T) (ctx context.Context, view func(Scope) *contents) {
	t.Helper()
	dir := t.TempDir()
	b, err := bolt.Open(filepath.Join(dir, "meta.db"), 0o600, &bolt.Options{NoSync: true})
	check(t, err)
	t.Cleanup(func() { _ = b.Close() })
	files, err := local.NewStore(filepath.Join(dir, "content"))
	check(t, err)
	db := metadata.NewDB(b, files, nil)
	return namespaces.WithNamespace(t.Context(), "k8s.io"), func(s Scope) *contents {
		return &contents{Store: db.ContentStore(), scope: s}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// begin writes some bytes of the layer and leaves.
func begin(ctx context.Context, t *testing.T, c *contents, p []byte) {
	t.Helper()
	w, err := c.Writer(ctx, content.WithRef(ref)) // which bounds nothing
	check(t, err)
	_, err = w.Write(p)
	check(t, err)
	check(t, w.Close())
}

// served answers with one body after the other: each time it is sought to the
// start.
type served struct {
	bodies [][]byte
	io.ReadSeeker
	from []int64 // where reading began
}

func (s *served) Seek(offset int64, whence int) (int64, error) {
	s.ReadSeeker = bytes.NewReader(s.bodies[0])
	s.bodies = s.bodies[1:]
	s.from = append(s.from, offset)
	return s.ReadSeeker.Seek(offset, whence)
}

// fetch does what remotes.Fetch does.
func fetch(ctx context.Context, t *testing.T, c *contents, bodies ...[]byte) (from []int64, err error) {
	t.Helper()
	w, err := content.OpenWriter(ctx, c, content.WithRef(ref), content.WithDescriptor(desc))
	if err != nil {
		return nil, err
	}
	defer w.Close()
	status, err := w.Status()
	check(t, err)
	if status.Ref != ref {
		t.Errorf("the reference is %s", status.Ref)
	}
	if status.Offset == desc.Size {
		return nil, w.Commit(ctx, desc.Size, desc.Digest)
	}
	s := &served{bodies: bodies}
	if status.Offset == 0 {
		_, err := s.Seek(0, io.SeekStart)
		check(t, err)
	}
	err = content.Copy(ctx, w, s, desc.Size, desc.Digest)
	return s.from, err
}

// unfinished returns what the store has of a scope that is not finished, whoever has begun it.
func unfinished(ctx context.Context, t *testing.T, c *contents) (all []content.Status) {
	t.Helper()
	statuses, err := c.Store.ListStatuses(ctx)
	check(t, err)
	for _, status := range statuses {
		if strings.HasSuffix(status.Ref, c.suffix()) {
			all = append(all, c.seen(status))
		}
	}
	return all
}

// wantUnfinished compares what a scope has begun.
func wantUnfinished(ctx context.Context, t *testing.T, c *contents, want ...int64) {
	t.Helper()
	all := unfinished(ctx, t, c)
	if len(all) != len(want) {
		t.Fatalf("%d are unfinished, want %d: %+v", len(all), len(want), all)
	}
	for i, status := range all {
		one, err := c.Status(ctx, ref)
		if err != nil || status.Ref != ref || status.Offset != want[i] || one.Offset != want[i] || one.Ref != ref {
			t.Errorf("got %+v, and %+v, %v, want %d bytes", status, one, err, want[i])
		}
	}
}

// wantListed compares what a pull lists, which is what it writes.
func wantListed(ctx context.Context, t *testing.T, c *contents, want ...int64) {
	t.Helper()
	all, err := c.ListStatuses(ctx)
	check(t, err)
	var got []int64
	for _, status := range all {
		if got = append(got, status.Offset); status.Ref != ref {
			t.Errorf("listed as %s", status.Ref)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v bytes are listed, want %v", got, want)
	}
}

func TestScopesSeeTheirOwn(t *testing.T) {
	ctx, view := newContents(t)
	begin(ctx, t, view(eve), garbage[:100])
	begin(ctx, t, view(alice), layer[:7])
	wantUnfinished(ctx, t, view(eve), 100)
	wantUnfinished(ctx, t, view(alice), 7)
	if all := unfinished(ctx, t, view(Scope{})); len(all) != 2 {
		t.Errorf("without a scope: %v", all)
	}
	if _, err := view(Scope{}).Status(ctx, ref); !errdefs.IsNotFound(err) {
		t.Errorf("without a scope: %v", err)
	}
	if _, err := view(alice).ListStatuses(ctx, "ref==1"); !errdefs.IsNotImplemented(err) {
		t.Errorf("with a filter: %v", err)
	}
	if _, err := view(alice).Writer(ctx); !errdefs.IsInvalidArgument(err) {
		t.Errorf("without a reference: %v", err)
	}
	// What is begun is continued, and what is finished belongs to all.
	_, err := fetch(ctx, t, view(alice), layer)
	check(t, err)
	if _, err := fetch(ctx, t, view(eve), garbage); !errdefs.IsAlreadyExists(err) {
		t.Errorf("finished content: %v", err)
	}
	wantUnfinished(ctx, t, view(alice))
	check(t, view(eve).Abort(ctx, ref))
	wantUnfinished(ctx, t, view(eve))
}

func TestGarbage(t *testing.T) {
	for what, tc := range map[string]struct {
		begun  []byte
		bodies [][]byte
		from   []int64 // where reading begins
		valid  bool
	}{
		"none":                   {nil, [][]byte{layer}, []int64{0}, true},
		"begun":                  {garbage[:100], [][]byte{layer, layer}, []int64{100, 0}, true},
		"begun to its end":       {garbage, [][]byte{layer}, []int64{0}, true},
		"too much":               {append(garbage, 1), [][]byte{layer}, []int64{0}, true},
		"all but the commit":     {layer, nil, nil, true},
		"served":                 {nil, [][]byte{garbage, layer}, []int64{0, 0}, true},
		"begun, and served":      {garbage[:100], [][]byte{layer, garbage}, []int64{100, 0}, false},
		"too much served":        {nil, [][]byte{append(layer, 1), layer}, []int64{0, 0}, true},
		"too much served twice":  {nil, [][]byte{append(layer, 1), append(layer, 1)}, []int64{0, 0}, false},
		"served twice":           {nil, [][]byte{garbage, garbage}, []int64{0, 0}, false},
		"begun to its end twice": {garbage, [][]byte{garbage, garbage}, []int64{0, 0}, false},
	} {
		t.Run(what, func(t *testing.T) {
			ctx, view := newContents(t)
			if tc.begun != nil {
				begin(ctx, t, view(alice), tc.begun)
			}
			from, err := fetch(ctx, t, view(alice), tc.bodies...)
			if !slices.Equal(from, tc.from) {
				t.Errorf("read from %v, want %v", from, tc.from)
			}
			if tc.valid && err != nil || !tc.valid && !errdefs.IsFailedPrecondition(err) || errors.Is(err, content.ErrReset) {
				t.Errorf("got %v", err)
			}
			if _, err := view(alice).Info(ctx, desc.Digest); (err == nil) != tc.valid {
				t.Errorf("content: %v", err)
			}
			wantUnfinished(ctx, t, view(alice))
		})
	}
}

// Bytes that were thrown away count as progress, or those in their place would
// not be seen.
func TestProgressAfterGarbage(t *testing.T) {
	ctx, view := newContents(t)
	c := view(alice)
	w, err := c.Writer(ctx, content.WithRef(ref), content.WithDescriptor(desc))
	check(t, err)
	defer w.Close()
	_, err = w.Write(garbage)
	check(t, err)
	if err := w.Commit(ctx, desc.Size, desc.Digest); !errors.Is(err, content.ErrReset) {
		t.Fatalf("got %v", err)
	}
	_, err = w.Write(layer[:10])
	check(t, err)
	wantUnfinished(ctx, t, c, desc.Size+10)
	wantListed(ctx, t, c, desc.Size+10)
}

// A pull lists what it is writing, and nothing that others have begun, or it itself before.
func TestListsWhatIsWritten(t *testing.T) {
	ctx, view := newContents(t)
	begin(ctx, t, view(alice), layer[:7])
	c := view(alice)
	wantListed(ctx, t, c)
	w, err := c.Writer(ctx, content.WithRef(ref), content.WithDescriptor(desc))
	check(t, err)
	wantListed(ctx, t, c, 7)
	wantListed(ctx, t, view(eve))
	_, err = w.Write(layer[7:])
	check(t, err)
	wantListed(ctx, t, c, desc.Size)
	check(t, w.Commit(ctx, desc.Size, desc.Digest))
	wantListed(ctx, t, c)
	check(t, w.Close())
	wantListed(ctx, t, c)
	if len(c.open) > 0 {
		t.Errorf("%v are open", c.open)
	}
}
