// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"net/http"
	"strings"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// KnownByItsName puts a balancer before r that has that status for whoever spells the name of
// the registry in another way. It returns another spelling; configured says that this one and
// the name itself have a hosts.toml, by which they are asked as they are spelled.
func (n *Node) KnownByItsName(r *resolvertest.Registry, status int, configured bool) (other string) {
	n.T.Helper()
	own := r.Host()
	r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if req.Host != own {
			w.WriteHeader(status)
			return
		}
		next.ServeHTTP(w, req)
	})
	other = strings.Replace(own, ":", ":0", 1)
	if configured {
		for _, name := range []string{own, other} {
			n.WriteHosts(name, "server = \"http://"+name+"\"\n")
		}
	}
	return other
}
