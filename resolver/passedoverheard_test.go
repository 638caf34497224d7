// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A registry that a pull passes over, since it has asked another pull to leave it alone, was not asked: a mirror has all of it.
func TestHostThatIsPassedOverIsNotHeard(t *testing.T) {
	busy, lost := layerOf("busy"), layerOf("lost")
	mirror, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, busy.Digest.String()) || strings.HasSuffix(r.URL.Path, lost.Digest.String()) {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte("layer"))
	})
	origin, gets := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, busy.Digest.String()) {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	name := strings.TrimPrefix(origin.URL, "http://")
	hosts := "[host.\"" + origin.URL + "\"]\n[host.\"" + mirror.URL + "\"]\n"
	r := newResolver(t, Options{HostDirs: []string{hostsDirOf(t, name, hosts)}})
	q := Query{Reference: name + "/team/app:v1"}
	own := openAt(t, r, q).Source(manifestDesc) // its check is over
	other := openAt(t, r, q).Source(manifestDesc)
	_, _ = read(t, other, busy)
	before := len(gets.list())
	_, err := read(t, own, layerOf("layer"))
	if err != nil || own.Heard().OriginAnswered || len(gets.list()) != before {
		t.Errorf("%v, heard %+v, the registry was asked %d times", err, own.Heard(), len(gets.list())-before)
	}
	_, err = read(t, own, lost)
	e := own.Failure(err)
	if e.Class == failure.Unavailable && e.OriginAnswered {
		t.Errorf("the class is %s, and the registry has answered", e.Class)
	}
}
