// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// A registry that was never asked has nothing to go on with where a certificate cannot be
// read any more: nobody may be told otherwise, whether the text is the same or not.
func TestLastGoodWithoutItsCertificate(t *testing.T) {
	secure := resolvertest.New(t, resolvertest.WithTLS())
	synctest.Test(t, func(t *testing.T) {
		w := newWatching(t)
		text := "ca = 'ca.pem'\n"
		write(t, w.root, registryName, text)
		ca := filepath.Join(w.dir(), "ca.pem")
		put(t, ca, secure.CAPEM())
		w.start()
		defer func() { _ = w.Close() }()
		c := newCache(t, Options{Dirs: []string{w.root}, Watcher: w.Watcher})
		for _, newest := range []string{text, "[host"} {
			write(t, w.root, registryName, newest)
			put(t, ca, []byte("garbage"))
			if got := w.next(); !strings.Contains(got, "not taken") || strings.Contains(got, "is used instead") || !strings.Contains(got, "requests for others fail") {
				t.Errorf("%q: logged %s", newest, got)
			}
			if _, _, err := acquire(t, c, registryName); err == nil {
				t.Errorf("%q: there are hosts", newest)
			}
			if p := w.Problems(); len(p) != 1 || !p[0].LastGood || !p[0].OnlyAsked {
				t.Errorf("%q: got %+v", newest, p)
			}
			put(t, ca, secure.CAPEM())
			w.next()
		}
		// The certificate alone is mended.
		if p := w.Problems(); len(p) != 1 || !p[0].LastGood || p[0].OnlyAsked {
			t.Errorf("got %+v", p)
		}
		if _, _, err := acquire(t, c, registryName); err != nil {
			t.Error(err)
		}
	})
}
