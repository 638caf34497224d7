// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestDeadline holds that with pull_deadline a pod starts from the cached image while the
// new one is pulled in the background, and the next pod from that.
func TestDeadline(t *testing.T) {
	onNode(t, func(k *Kubelet) {
		pod, ref := app("app:1", IfNotPresent), nodetest.Named("app:1")
		first := k.Push("app:1", 1)
		k.Run(pod).WantStarted(first)

		second := k.Push("app:1", 2)
		release := k.Node.Registry.Hang(resolvertest.Blobs)
		mark := k.Node.Mark()
		old := k.Run(pod)
		old.WantStarted(first)
		nodetest.Want(t, "reason", k.Node.Decision(mark, ref).Reason, "pull_deadline")
		k.until("the image is marked", func() error { return k.labelled(ref, "stale-reason", "pull_deadline") })
		release()
		k.until("the pull in the background ends", func() error {
			all, err := k.Node.BackgroundPulls(mark, ref)
			if err == nil && len(all) == 0 {
				err = errors.New("it has not")
			}
			return err
		})
		k.Run(pod).WantStarted(second)
		old.wantDigests(first)
		old.Crash()
		old.WantRestarted(1, second)
	}, rules(t, starts+"pull_deadline = '0s'\n"))
}

// TestQuarantine holds that with check_with = "Manifest" a pod does not start from an image
// that is there and unchanged while a scanner refuses its manifest, and starts after that.
func TestQuarantine(t *testing.T) {
	onNode(t, func(k *Kubelet) {
		pod := app("app:1", IfNotPresent)
		d := k.Push("app:1", 1)
		k.Run(pod).WantStarted(d)
		undo := k.Node.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/v2/app/manifests/") {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			next.ServeHTTP(w, r)
		})
		refused := k.Run(pod)
		refused.WantWaiting("ErrImagePull", "forbidden")
		undo()
		refused.WantStarted(d)
	}, rules(t, starts+"check_with = 'Manifest'\n"))
}

// TestRecordsOfStarts holds that under govern = "Starts" a kubelet with KEP-2535's gate
// has a record of no credentials that were not proved, with the registry up or down.
func TestRecordsOfStarts(t *testing.T) {
	onPrivate(t, func(k *Kubelet) {
		k.Node.WriteRules("starts.toml", starts)
		d := k.Push("private:1", 1)
		k.Run(with("alice", "private:1")).WantStarted(d)
		for _, begin := range []func(){func() {}, k.Node.Registry.Refuse, k.Restart} {
			begin()
			wantAllDenied(k, with("", "private:1"), with("wrong", "private:1"))
			k.Run(with("alice", "private:1")).WantStarted(d)
			k.Run(with("alice-again", "private:1")).WantStarted(d)
			wantProvedRecords(k)
		}
	})
}
