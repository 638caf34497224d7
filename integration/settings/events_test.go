// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"slices"
	"strings"
	"time"

	eventstypes "github.com/containerd/containerd/api/events"
	"github.com/containerd/containerd/v2/core/events"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/typeurl/v2"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// marks is a namespace of containerd in which nothing happens but what imageEvents
// does there to tell events before from events after.
const marks = "marks"

// imageEvents are containerd's events of images, from which CRI learns what other
// clients do.
type imageEvents struct {
	n         *nodetest.Node
	envelopes <-chan *events.Envelope
	errs      <-chan error
	mark      int
	said      map[string]string // of repository@digest, by the last event of each
}

// subscribe returns once events arrive.
func subscribe(n *nodetest.Node) *imageEvents {
	n.T.Helper()
	e := &imageEvents{n: n, said: map[string]string{}}
	e.envelopes, e.errs = n.Client.EventService().Subscribe(n.T.Context(), `topic~="/images/"`)
	nodetest.Eventually(n.T, "events arrive", func() bool {
		e.putMark()
		select {
		case <-e.envelopes:
			return true
		default:
			return false
		}
	})
	e.take()
	return e
}

// putMark makes an event that is not one of CRI's namespace.
func (e *imageEvents) putMark() (name string) {
	e.n.T.Helper()
	e.mark++
	name = fmt.Sprintf("mark.test/%d", e.mark)
	ctx := namespaces.WithNamespace(e.n.T.Context(), marks)
	target := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString(name), Size: 1}
	_, err := e.n.Client.ImageService().Create(ctx, images.Image{Name: name, Target: target})
	e.n.Must(err)
	return name
}

// take returns what has happened since the last take, in order, but for two kinds
// that come last: removals, by name, since CRI removes the names of an image in no
// order of its own; and events of repository@digest, whose record pullwarden writes
// first, so that no other name of an image is there before the proofs of it are.
func (e *imageEvents) take() []string {
	e.n.T.Helper()
	last := e.putMark()
	var all, digests, removals []string
	for {
		select {
		case envelope := <-e.envelopes:
			name, labels := e.decode(envelope)
			text := fmt.Sprintf("%s in %s: %s %v", envelope.Topic, envelope.Namespace, name, labels)
			switch {
			case name == last:
				slices.Sort(removals)
				return slices.Concat(all, digests, removals)
			case envelope.Namespace == marks:
			case envelope.Topic == "/images/delete":
				removals = append(removals, text)
			case strings.Contains(name, "@"):
				if e.tells(name, labels) {
					digests = append(digests, text)
				}
			default:
				all = append(all, text)
			}
		case err := <-e.errs:
			e.n.T.Fatalf("the events end: %v", err)
		case <-time.After(eventLimit):
			e.n.T.Fatalf("no event of %s, after %s", last, all)
		}
	}
}

// tells reports whether an event of repository@digest says more than the one
// before. Only its labels can change, and pullwarden's may do so at each pull.
func (e *imageEvents) tells(name string, labels map[string]string) bool {
	before, known := e.said[name]
	e.said[name] = fmt.Sprint(labels)
	return !known || before != e.said[name]
}

// eventLimit is more than an event takes on a busy machine.
const eventLimit = 30 * time.Second

// decode returns the name that an event is about, and its labels but for
// pullwarden's.
func (e *imageEvents) decode(envelope *events.Envelope) (name string, labels map[string]string) {
	e.n.T.Helper()
	decoded, err := typeurl.UnmarshalAny(envelope.Event)
	e.n.Must(err)
	switch event := decoded.(type) {
	case *eventstypes.ImageCreate:
		name, labels = event.GetName(), event.GetLabels()
		nodetest.Want(e.n.T, "topic of a new "+name, envelope.Topic, "/images/create")
	case *eventstypes.ImageUpdate:
		name, labels = event.GetName(), event.GetLabels()
		nodetest.Want(e.n.T, "topic of a changed "+name, envelope.Topic, "/images/update")
	case *eventstypes.ImageDelete:
		name = event.GetName()
		delete(e.said, name)
		nodetest.Want(e.n.T, "topic of a removed "+name, envelope.Topic, "/images/delete")
	default:
		e.n.T.Fatalf("%s has a %T", envelope.Topic, decoded)
	}
	return name, others(labels)
}
