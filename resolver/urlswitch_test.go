// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// The host of a url answers that it switches protocols, and says no more: net/http gives its connection away, which the
// end of a pull's context does not end.
func TestURLThatSwitchesProtocols(t *testing.T) {
	GuardURLs()
	over := make(chan struct{})
	elsewhere, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = c.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"))
		<-over
	})
	server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	source := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{}).Source(ocispec.Descriptor{})
	ended := make(chan error, 1)
	go func() {
		_, err := read(t, source, ocispec.Descriptor{
			MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("layer"), Size: 5, URLs: []string{elsewhere.URL + "/layer"},
		})
		ended <- err
	}()
	select {
	case err := <-ended:
		wantClass(t, source.Failure(err), failure.Invalid)
	case <-time.After(plenty):
		t.Error("the layer is read on")
	}
	close(over)
}
