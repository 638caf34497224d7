// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/containerd/v2/core/transfer/registry"

	"github.com/pullwarden/pullwarden/resolver/hosts"
)

// steps is a reader of which each Read asks hosts and returns bytes.
type steps struct {
	last *lastHost
	list []step
}

type step struct {
	asks string // the host that is asked before the bytes come, or after them
	n    int
	then string // that is asked once they have come
}

// Read implements io.Reader. One of nothing asks the host alone.
func (s *steps) Read(p []byte) (int, error) {
	if len(s.list) == 0 {
		return 0, io.EOF
	}
	next := &s.list[0]
	s.ask(&next.asks)
	if len(p) == 0 {
		return 0, nil
	}
	s.ask(&next.then)
	s.list = s.list[1:]
	return next.n, nil
}

func (s *steps) ask(host *string) {
	if *host != "" {
		s.last.trace().WroteHeaderField("Host", []string{*host})
		*host = ""
	}
}

func (*steps) Seek(offset int64, _ int) (int64, error) { return offset, nil }
func (*steps) Close() error                            { return nil }

// Docker's reader asks for the rest as soon as a connection breaks, while it
// still has bytes of it to return.
func TestReportingReader(t *testing.T) {
	for _, tc := range []struct {
		what  string
		steps []step
		seek  int // the step before which it is sought; 0 = none
		want  string
	}{
		{"one host", []step{{"a", 5, ""}, {"", 5, ""}}, 0, "a a"},
		{"no bytes", []step{{"a", 0, ""}}, 0, ""},
		{"the second gives the rest", []step{{"a", 5, ""}, {"b", 0, ""}, {"", 5, ""}}, 0, "a b"},
		{"bytes of the first while the second is asked", []step{{"a", 5, ""}, {"b", 5, ""}}, 0, "a a"},
		{"the first breaks off at once", []step{{"a", 5, "b"}, {"", 5, ""}}, 0, "a b"},
		{"the first gives nothing", []step{{"a", 0, ""}, {"b", 0, ""}, {"", 5, ""}}, 0, "b"},
		{"sought", []step{{"a", 5, ""}, {"b", 5, ""}}, 1, "a b"},
		{"a token server in between", []step{{"a", 0, ""}, {"auth", 0, ""}, {"", 5, ""}}, 0, "a"},
		{"a host that nobody knows", []step{{"cdn", 5, ""}}, 0, ""},
	} {
		var added []string // with each Read
		aliases := []hosts.Alias{{Host: "a", Name: "a"}, {Host: "b", Name: "b"}}
		last := &lastHost{hosts: aliases}
		inner := &steps{last: last, list: tc.steps}
		source := newReportingSource(nil, aliases)
		r := &reportingSeeker{seeker: inner, reportingReader: &reportingReader{ReadCloser: inner, source: source, digest: "some", last: last}}
		for i := 0; ; i++ {
			if i > 0 && i == tc.seek {
				if _, err := r.Seek(1, io.SeekStart); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := r.Read(make([]byte, 8)); err != nil {
				break
			}
			added = append(added, source.ServedBy("some").Hosts...)
			clear(source.served)
		}
		if got := strings.Join(added, " "); got != tc.want {
			t.Errorf("%s: the sources %q were added, want %q", tc.what, got, tc.want)
		}
	}
}

// Where pieces of a layer are fetched side by side, each host that was asked may have served any of them.
func TestSourcesOfPieces(t *testing.T) {
	aliases := []hosts.Alias{{Host: "a", Name: "a"}, {Host: "b", Name: "b", Scheme: "https"}}
	for pieces, want := range map[bool]string{false: "b:80", true: "a b:80"} {
		source := newReportingSource(nil, aliases)
		last := &lastHost{hosts: aliases, pieces: pieces}
		trace := last.trace()
		trace.GotConn(httptrace.GotConnInfo{Conn: nil}) // of a, without TLS
		inner := &steps{last: last, list: []step{{"a", 0, ""}, {"b", 0, ""}, {"", 5, ""}}}
		r := &reportingReader{ReadCloser: inner, source: source, digest: "some", last: last}
		for range 3 {
			if _, err := r.Read(make([]byte, 8)); err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.Join(source.ServedBy("some").Hosts, " "); got != want {
			t.Errorf("in pieces %v: from %q, want %q", pieces, got, want)
		}
	}
}

// A source hears from containerd's transfer service whether layers are fetched in pieces.
func TestSourceHearsOfPieces(t *testing.T) {
	for buffer, want := range map[int]bool{0: false, 1 << 20: true} {
		s := newReportingSource(&registry.OCIRegistry{}, nil)
		s.SetResolverOptions(transfer.WithConcurrentLayerFetchBuffer(buffer))
		if got := s.pieces.Load(); got != want {
			t.Errorf("with a buffer of %d: in pieces %v", buffer, got)
		}
	}
}

// A host that no header can have is a source that has no name: what it serves is not from the one that was
// asked before alone.
func TestSourceWithoutAName(t *testing.T) {
	aliases := []hosts.Alias{{Host: "mirror.test", Name: "mirror.test"}}
	for _, key := range []string{"Host", ":authority"} {
		last, source := &lastHost{hosts: aliases}, newReportingSource(nil, aliases)
		inner := &steps{last: last, list: []step{{"mirror.test", 5, ""}, {"storage.test", 5, ""}, {"", 5, ""}}}
		r := &reportingReader{ReadCloser: inner, source: source, digest: "some", last: last}
		for i, want := range []string{"mirror.test", "mirror.test", "mirror.test ***"} { // the mirror has sent its client to the storage
			if i == 2 {
				last.trace().WroteHeaderField("Accept", []string{""})
				last.trace().WroteHeaderField(key, []string{""})
				r.body = nil // as after a Seek
			}
			if _, err := r.Read(make([]byte, 8)); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(source.ServedBy("some").Hosts, " "); got != want {
				t.Errorf("%s: read %d is from %q, want %q", key, i, got, want)
			}
		}
	}
}

// However a url spells its host, the request for it is one of that host.
func TestSpelledHosts(t *testing.T) {
	for _, spelled := range []string{
		"http://a.test", "http://a.test:", "https://a.test:443", "http://bücher.test", "http://bücher.test:5000",
		"http://b%C3%BCcher.test:", "http://[::1]", "http://[::1]:", "http://[fe80::1%25eth0]:5000", "http://127.0.0.1:",
	} {
		u, err := url.Parse(spelled)
		if err != nil {
			t.Fatal(err)
		}
		last := &lastHost{hosts: []hosts.Alias{{Host: "other.test"}, {Host: u.Host, Name: spelled}}}
		ctx := httptrace.WithClientTrace(t.Context(), last.trace())
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, spelled, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if err := req.Write(io.Discard); err != nil {
			t.Fatal(err)
		}
		if got := last.get(); got == nil || got.Name != spelled {
			t.Errorf("%s: asked %v", spelled, got)
		}
	}
}
