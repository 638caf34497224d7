// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
)

// world is two hosts, their subdomains, a storage service, lookalikes, and token servers anywhere. Their
// answers follow from a seed, and from who is asked for what, and how. Safe for concurrent use.
type world struct {
	seed   uint64
	mu     sync.Mutex
	visits []*visit // of the session under way
	tokens int      // given so far
}

const storageName = "storage.test"

// configured reports whether the world's hosts.toml has a host.
func configured(u *url.URL) bool { return u.Host == mirrorName || u.Host == registryName }

// visit is a request as it arrives somewhere, and the status that it gets.
type visit struct {
	method string
	chain  []*url.URL // the URLs that redirects have led through, the last one is its own
	shown  string     // "user:password", "Bearer token", or ""
	status int
}

func (v *visit) url() *url.URL   { return v.chain[len(v.chain)-1] }
func (v *visit) first() *url.URL { return v.chain[0] }
func (v *visit) token() bool     { return v.url().Path == "/token" }

// strayed reports whether it has been led out of the domain of who was asked first.
func (v *visit) strayed() bool {
	for _, u := range v.chain {
		if u.Host != v.first().Host && !strings.HasSuffix(u.Host, "."+v.first().Host) {
			return true
		}
	}
	return false
}

func (v *visit) String() string {
	return fmt.Sprintf("%s %v %q: %d", v.method, v.chain, v.shown, v.status)
}

// arrived reads a request.
func arrived(req *http.Request) *visit {
	v := &visit{method: req.Method, shown: req.Header.Get("Authorization"), chain: []*url.URL{req.URL}}
	for r := req; r.Response != nil && r.Response.Request != nil; {
		r = r.Response.Request
		v.chain = append([]*url.URL{r.URL}, v.chain...)
	}
	if user, secret, ok := req.BasicAuth(); ok {
		v.shown = user + ":" + secret
	}
	if req.Body != nil {
		form, _ := io.ReadAll(req.Body)
		if values, _ := url.ParseQuery(string(form)); values.Get("password") != "" {
			v.shown = values.Get("username") + ":" + values.Get("password")
		}
	}
	return v
}

// roundTrip answers a request, and takes note of it.
func (w *world) roundTrip(req *http.Request) (*http.Response, error) {
	v := arrived(req)
	w.mu.Lock()
	defer w.mu.Unlock()
	resp := w.registry
	if v.token() {
		resp = w.tokenServer
	}
	answered := resp(req, v)
	v.status = answered.StatusCode
	w.visits = append(w.visits, v)
	return answered, nil
}

// pick returns a number below n that follows from the seed and the keys.
func (w *world) pick(n uint64, keys ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, w.seed, "|", fmt.Sprintln(keys...))
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	return (x ^ x>>33) % n
}

func redirectTo(req *http.Request, address string) *http.Response {
	return answer(req, http.StatusTemporaryRedirect, http.Header{"Location": {address}}, "")
}

// tokenServer gives tokens that say whose they are, for which host, and whether that has asked for it itself:
// name_host_own_number.
func (w *world) tokenServer(req *http.Request, v *visit) *http.Response {
	q := req.URL.Query()
	name, _, _ := strings.Cut(v.shown, ":")
	k := w.pick(20, "token", req.URL.Host, v.method, q.Get("for"), q.Get("hop"), name)
	codes := map[uint64]int{11: 401, 12: 403, 13: 400, 14: 404, 15: 503}
	led := map[uint64]string{16: "eu." + req.URL.Host, 17: storageName, 18: v.first().Host}
	switch {
	case k < 11:
		w.tokens++
		token := fmt.Sprintf("%s_%s_%s_%d", name, q.Get("for"), q.Get("own"), w.tokens)
		return answer(req, http.StatusOK, nil, fmt.Sprintf(`{"token":%[1]q,"access_token":%[1]q,"expires_in":300}`, token))
	case codes[k] != 0:
		return answer(req, codes[k], nil, "")
	case led[k] != "" && q.Get("hop") == "":
		return redirectTo(req, "http://"+led[k]+"/token?hop=1&"+req.URL.RawQuery)
	}
	return answer(req, http.StatusMethodNotAllowed, nil, "")
}

// challenge wants a password or a token.
func (w *world) challenge(req *http.Request, v *visit, k uint64) *http.Response {
	own := 0
	if !v.strayed() && configured(req.URL) {
		own = 1
	}
	wants := `Basic realm="x"`
	if k%4 > 0 {
		realm := []string{"auth.test", v.first().Host, storageName, "auth.test"}[w.pick(4, "realm", req.URL.Host, k%2)]
		wants = fmt.Sprintf(`Bearer realm="http://%s/token?for=%s&own=%d",service="x"`, realm, req.URL.Host, own)
	}
	if k%4 == 3 && w.pick(3, "none", req.URL.Host) == 0 {
		return answer(req, http.StatusUnauthorized, nil, "")
	}
	return answer(req, http.StatusUnauthorized, http.Header{"WWW-Authenticate": {wants}}, "")
}

// served is a success.
func served(req *http.Request) *http.Response {
	if strings.Contains(req.URL.Path, "/blobs/") {
		return answer(req, http.StatusOK, nil, "layer")
	}
	return manifestAnswer(req)
}

// registry is what a host or a storage service answers.
func (w *world) registry(req *http.Request, v *visit) *http.Response {
	host, first, at := req.URL.Host, v.first().Host, req.URL.Path
	shown, previous, method := v.shown, "", req.Method
	if token, ok := strings.CutPrefix(shown, "Bearer "); ok { // a fresh one may be of more use
		number, _ := strconv.Atoi(token[strings.LastIndex(token, "_")+1:])
		shown = fmt.Sprint(token[:strings.LastIndex(token, "_")+1], uint64(number)%(1+w.pick(2, "fresh")))
	}
	if len(v.chain) > 1 {
		previous = v.chain[len(v.chain)-2].Host
	}
	if w.pick(2, "methods alike") == 0 {
		method = ""
	}
	part, repository := path.Base(path.Dir(at)), path.Base(path.Dir(path.Dir(at)))
	k := w.pick(25, "registry", host, part, repository, method, shown, previous)
	if shown != "" && w.pick(2, "lenient", host) == 0 {
		k = 1 + w.pick(8, "shown", host, part, method, previous)
	}
	codes := map[uint64]int{7: 403, 8: 404, 9: 503}
	led := map[uint64]string{
		4: "http://" + storageName + at, 5: "http://" + first + at + "x", 6: "http://eu." + strings.TrimPrefix(first, "eu.") + at,
		10: "http://" + first + "./v2/team/other", 11: "https://" + first + at, 13: "http://store:key@" + storageName + at,
		12: "http://" + []string{mirrorName, registryName}[w.pick(2, "host", previous)] + at,
	}
	switch {
	case len(v.chain) > 5, k < 4:
		return served(req)
	case led[k] != "":
		return redirectTo(req, led[k])
	case codes[k] != 0:
		return answer(req, codes[k], nil, "")
	}
	return w.challenge(req, v, w.pick(8, "challenge", host, repository))
}
