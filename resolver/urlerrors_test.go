// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"net/http"
	"testing"
)

// The host of a url answers with an error of which the body stalls, until the pull has no progress: the
// failure names that host, and no registry.
func TestURLsWhoseErrorsStallBlameNoRegistry(t *testing.T) {
	GuardURLs()
	for _, status := range []int{404, 500, 307} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			over := make(chan struct{})
			elsewhere, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "1000")
				w.Header().Set("Location", "/other")
				w.WriteHeader(status)
				_, _ = w.Write([]byte("x"))
				_ = http.NewResponseController(w).Flush()
				<-over
			})
			e := stallAtURL(t, elsewhere)
			close(over)
			wantBlamed(t, e, elsewhere)
		})
	}
}
