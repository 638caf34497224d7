// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"archive/tar"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// receiver takes what OTLP exporters send by HTTP.
type receiver struct {
	mu    sync.Mutex
	spans []*trace.Span
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var export collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &export)
	}
	if err != nil || req.URL.Path != "/v1/traces" {
		http.Error(w, "no traces", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range export.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			r.spans = append(r.spans, scope.GetSpans()...)
		}
	}
}

// named returns the spans whose name begins so.
func (r *receiver) named(name string) (found []*trace.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if strings.HasPrefix(s.GetName(), name) {
			found = append(found, s)
		}
	}
	return found
}

func attributes(s *trace.Span) map[string]string {
	all := map[string]string{}
	for _, a := range s.GetAttributes() {
		all[a.GetKey()] = a.GetValue().GetStringValue()
	}
	return all
}

// TestSpans has the daemon send its traces to a collector: a decision is a span with its
// outcome, and the pull's spans stand below it.
func TestSpans(t *testing.T) {
	t.Parallel()
	var got receiver
	server := httptest.NewServer(&got)
	t.Cleanup(server.Close)
	n := nodetest.New(t, nodetest.Env("OTEL_EXPORTER_OTLP_ENDPOINT="+server.URL, "OTEL_BSP_SCHEDULE_DELAY=50"))
	digest := n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	n.MustPull(ref)
	n.Registry.Refuse()
	n.MustFail(ref, []string{"RegistryUnavailable"})
	nodetest.Eventually(t, "both decisions are traced", func() bool { return len(got.named("pullwarden.Ensure")) == 2 })

	spans := got.named("pullwarden.Ensure")
	pulled, failed := attributes(spans[0]), attributes(spans[1])
	nodetest.Want(t, "status of the pull", spans[0].GetStatus().GetCode(), trace.Status_STATUS_CODE_OK)
	for key, value := range map[string]string{"image": ref, "policy": "Always", "policy_set_by": "default", "outcome": "Pulled", "reason": "absent", "digest": digest.String()} {
		nodetest.Want(t, key, pulled["pullwarden."+key], value)
	}
	nodetest.Want(t, "status of the failure", spans[1].GetStatus().GetCode(), trace.Status_STATUS_CODE_ERROR)
	if text := spans[1].GetStatus().GetMessage(); !strings.Contains(text, "connection refused") {
		t.Errorf("the failure is told as %q", text)
	}
	for key, value := range map[string]string{"outcome": "Failed", "reason": "unreachable", "class": "unreachable", "digest_before": digest.String()} {
		nodetest.Want(t, key, failed["pullwarden."+key], value)
	}
	nodetest.Eventually(t, "a span of the pull stands below its decision", func() bool {
		return slices.ContainsFunc(got.named(""), func(s *trace.Span) bool {
			return bytes.Equal(s.GetParentSpanId(), spans[0].GetSpanId())
		})
	})
}

// A registry makes a layer of the password that it was sent, whose unpacking fails by a name of a file
// that has it, and is long: containerd's spans of that neither tell it nor are long.
func TestSpansOfUnpackingTellNoSecret(t *testing.T) {
	t.Parallel()
	const secret = "Summer2024xyz"
	var got receiver
	server := httptest.NewServer(&got)
	t.Cleanup(server.Close)
	r := resolvertest.New(t, resolvertest.WithBasicAuth(map[string]string{"alice": secret}))
	n := nodetest.NewWith(t, r, nodetest.Env("OTEL_EXPORTER_OTLP_ENDPOINT="+server.URL, "OTEL_BSP_SCHEDULE_DELAY=50"))
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	n.Must(w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "a/" + secret + strings.Repeat("x", 3<<10), Mode: 0o644}))
	n.Must(w.Close())
	img, err := mutate.Append(nodetest.Image(1), mutate.Addendum{Layer: static.NewLayer(b.Bytes(), types.OCIUncompressedLayer), MediaType: types.OCIUncompressedLayer})
	n.Must(err)
	n.Push("app:1", img)
	_, err = n.Pull(nodetest.Named("app:1"), node.Credentials("alice", secret))
	nodetest.WantWords(t, err, "failed to extract layer")
	nodetest.Eventually(t, "the decision is traced", func() bool { return len(got.named("pullwarden.Ensure")) == 1 })
	if len(got.named("pkg.unpack.unpacker.unpackLayer")) == 0 {
		t.Error("the unpacking is not traced")
	}
	for _, s := range got.named("") {
		if text := s.GetStatus().GetMessage(); strings.Contains(text, secret) || len(text) > 2<<10 {
			t.Errorf("%s: status %s", s.GetName(), text)
		}
		for _, e := range s.GetEvents() {
			if text := e.String(); strings.Contains(text, secret) || e.GetName() == "exception" && len(text) > 2<<10 {
				t.Errorf("%s: event %s", s.GetName(), text)
			}
		}
	}
}
