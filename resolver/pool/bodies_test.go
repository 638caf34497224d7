// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	h2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A transport before the pool, such as otelhttp's, keeps the bodies that it gives, and looks at
// them when it has an answer. The race detector tells whether one is given afterwards.
func TestBodiesOfSecondTries(t *testing.T) {
	second := make(chan struct{})
	h := serve(t, "", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			select { // the first try is answered when the second one has begun
			case <-second:
			case <-time.After(10 * time.Second):
			}
		}
		well(w, r)
	})
	h.want(t, 1)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.server.URL+"/", strings.NewReader("grant"))
	if err != nil {
		t.Fatal(err)
	}
	given := 0
	req.GetBody = func() (io.ReadCloser, error) {
		close(second)
		time.Sleep(100 * time.Millisecond)
		given++
		return io.NopCloser(strings.NewReader("grant")), nil
	}
	resp, err := h.pool.RoundTrip(req)
	if err != nil || given != 1 {
		t.Fatalf("%d bodies were given, want 1: %v", given, err)
	}
	_ = resp.Body.Close()
}

// framed starts a host whose HTTP/2 streams are answered by a function, which may refuse one:
// number is that of the connection, and stream that on it. nil = there is no answer.
func framed(t *testing.T, respond func(number, stream int) func(f *h2.Framer, id uint32) error) *host {
	t.Helper()
	h := serve(t, "h2", well)
	plain := h.pool.base.Clone()
	plain.ForceAttemptHTTP2 = false
	resp, err := (&http.Client{Transport: plain}).Get(h.server.URL) // the server listens
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	plain.CloseIdleConnections()
	var connections atomic.Int32
	h.server.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
		h2.NextProtoTLS: func(_ *http.Server, c *tls.Conn, _ http.Handler) {
			defer c.Close()
			number := int(connections.Add(1))
			if _, err := io.ReadFull(c, make([]byte, len(h2.ClientPreface))); err != nil {
				return
			}
			f := h2.NewFramer(c, c)
			var mu sync.Mutex
			write := func(w func() error) {
				mu.Lock()
				defer mu.Unlock()
				_ = w()
			}
			write(func() error { return f.WriteSettings() }) // before all else
			for stream := 1; ; {
				frame, err := f.ReadFrame()
				if err != nil {
					return
				}
				switch frame := frame.(type) {
				case *h2.SettingsFrame:
					if !frame.IsAck() {
						go write(f.WriteSettingsAck)
					}
				case *h2.HeadersFrame:
					id, answer := frame.StreamID, respond(number, stream)
					stream++
					if answer != nil {
						go write(func() error { return answer(f, id) })
					}
				}
			}
		},
	}
	h.want(t, 2)
	return h
}

func answerWell(f *h2.Framer, id uint32) error {
	var block strings.Builder
	_ = hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
	if err := f.WriteHeaders(h2.HeadersFrameParam{StreamID: id, BlockFragment: []byte(block.String()), EndHeaders: true}); err != nil {
		return err
	}
	return f.WriteData(id, true, []byte("well"))
}

func refuse(f *h2.Framer, id uint32) error { return f.WriteRSTStream(id, h2.ErrCodeRefusedStream) }

// A host that refuses a stream is asked by HTTP/1.1, by a second try as well.
func TestRefusedSecondTry(t *testing.T) {
	h := framed(t, func(number, stream int) func(*h2.Framer, uint32) error {
		switch {
		case number == 1 && stream == 2:
			return nil // silent, also to pings, from now on
		case number == 2 && stream == 1:
			return refuse
		}
		return answerWell
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, got, err := h.send(ctx, http.MethodPost, "/", "grant"); err != nil || got != "well" {
		t.Errorf("got %q, %v", got, err)
	}
}

// The first try is refused, so that its body is asked for once more, while the second one
// does.
func TestBodiesOneAfterTheOther(t *testing.T) {
	asked := make(chan struct{})
	h := framed(t, func(number, stream int) func(*h2.Framer, uint32) error {
		if number == 1 && stream == 2 {
			return func(f *h2.Framer, id uint32) error {
				<-asked
				return refuse(f, id)
			}
		}
		return answerWell
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.server.URL+"/", strings.NewReader("grant"))
	if err != nil {
		t.Fatal(err)
	}
	var first sync.Once
	var under, together atomic.Int32
	req.GetBody = func() (io.ReadCloser, error) {
		if under.Add(1) > 1 {
			together.Add(1)
		}
		defer under.Add(-1)
		first.Do(func() { close(asked) })
		time.Sleep(100 * time.Millisecond)
		return io.NopCloser(strings.NewReader("grant")), nil
	}
	resp, err := h.pool.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if n := together.Load(); n > 0 {
		t.Errorf("%d bodies were asked for at once", n)
	}
}
