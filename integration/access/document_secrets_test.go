// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// signature is what a registry puts into the URLs of its storage service.
const signature = "signature-of-a-storage-url-0123456789"

// talker is a registry whose documents repeat what it was sent, and that redirects for the
// layer to signed URLs of its storage service.
type talker struct {
	f       *forgery
	storage *resolvertest.Registry
	layer   digest.Digest
}

// newTalker has a registry talk. By mediaType and name, the media type and the name of the
// layer are made of the token that it was shown first.
func newTalker(t *testing.T, g *guarded, what string, mediaType, name func(token string) string) *talker {
	t.Helper()
	junk := []byte("no layer of " + what)
	tk := &talker{f: &forgery{served: map[digest.Digest][]byte{}}, storage: resolvertest.New(t), layer: digest.FromBytes(junk)}
	var once sync.Once
	g.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || !strings.HasPrefix(r.URL.Path, "/v2/private/"+what) {
			next.ServeHTTP(w, r)
			return
		}
		once.Do(func() { tk.write(t, junk, mediaType(token), name(token)) })
		if strings.HasSuffix(r.URL.Path, tk.layer.String()) {
			http.Redirect(w, r, tk.storage.URL()+"/layer?sig="+signature+"&token="+token, http.StatusTemporaryRedirect)
			return
		}
		tk.f.serve(w, r)
	})
	tk.serve(http.StatusOK, junk)
	return tk
}

func (tk *talker) write(t *testing.T, junk []byte, mediaType, name string) {
	t.Helper()
	config := []byte(fmt.Sprintf(`{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[%q]}}`, digest.FromString("x")))
	tk.f.served[digest.FromBytes(config)] = config
	tk.f.top = tk.f.add(t, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: digest.FromBytes(config), Size: int64(len(config))},
		Layers: []ocispec.Descriptor{{
			MediaType: mediaType, Digest: tk.layer, Size: int64(len(junk)),
			Annotations: map[string]string{ocispec.AnnotationRefName: name},
		}},
	})
}

// serve has the storage service answer.
func (tk *talker) serve(code int, content []byte) {
	tk.storage.Script(func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		w.WriteHeader(code)
		_, _ = w.Write(append(content, strings.Repeat(r.URL.RawQuery, min(1, code/400))...))
	})
}

// TestDocumentsTellNoSecret has containerd fetch, store and unpack what a registry has made of
// the secrets that it was sent, and fail by it. Nothing that the daemon tells then has any.
func TestDocumentsTellNoSecret(t *testing.T) {
	t.Parallel()
	metrics := nodetest.FreeAddress(t)
	n := nodetest.Start(t, nodetest.MetricsAt(metrics), nodetest.AuditLog("audit.log"))
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	secrets := newSecrets()
	secrets.watchTokens(g)
	secrets.add("a signature", signature)
	events := eventsOf(n)

	const layer = "application/vnd.oci.image.layer.v1.tar."
	none := func(string) string { return "" }
	just := func(text string) func(string) string { return func(string) string { return text } }
	plain := just(ocispec.MediaTypeImageLayer)
	b64 := base64.StdEncoding.EncodeToString([]byte(alice.user + ":" + alice.password))
	var told []string
	for what, test := range map[string]struct {
		mediaType, name func(token string) string
		code            int
		content         string
	}{
		"password":       {just(layer + alice.password), none, 200, ""},
		"path":           {just(layer + url.PathEscape(alice.password)), none, 200, ""},
		"query":          {just(layer + url.QueryEscape(alice.password)), none, 200, ""},
		"base64":         {just(layer + b64), none, 200, ""},
		"token":          {plain, func(token string) string { return token }, 200, ""},
		"name":           {plain, just(b64), 200, "other bytes than"},
		"signed-503":     {plain, none, 503, ""},
		"signed-403":     {plain, none, 403, ""},
		"signed-garbage": {plain, none, 200, "other bytes than"},
	} {
		tk := newTalker(t, g, what, test.mediaType, test.name)
		if test.code != 200 || test.content != "" {
			tk.serve(test.code, []byte(test.content + " no layer of " + what)[:len("no layer of "+what)])
		}
		_, err := n.Pull("r.test/private/"+what+":1", alice.secret(), node.Hint("policy", "Always"))
		if err == nil {
			t.Errorf("%s: the pull succeeds", what)
		}
		told = append(told, fmt.Sprintf("%s: %v", what, err))
	}
	all := map[string][]byte{"errors": []byte(strings.Join(told, "\n")), "events": []byte(events())}
	for where, b := range everythingTold(n, metrics) {
		if !strings.Contains(where, "io.containerd.") { // what registries have sent is there
			all[where] = b
		}
	}
	for where, b := range all {
		for _, what := range secrets.in(b) {
			t.Errorf("%s has %s", where, what)
		}
	}
	if len(n.LogLines(0, `"msg":"fetch"`, `"mediatype":"application/vnd.oci.image.layer.v1.tar.***"`)) == 0 || len(all) < 5 {
		t.Error("there is nothing to look at")
	}
}

// eventsOf returns what returns the events that the daemon has published since, but for those
// that name the media type of content as its registry does.
func eventsOf(n *nodetest.Node) (list func() string) {
	ctx, cancel := context.WithCancel(n.T.Context())
	n.T.Cleanup(cancel)
	envelopes, errs := n.Client.EventService().Subscribe(ctx)
	var b strings.Builder
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case e := <-envelopes:
				if e.Topic == "/content/create" {
					continue
				}
				_, _ = fmt.Fprintln(&b, e.Topic, string(e.Event.GetValue()))
			case <-errs:
				return
			}
		}
	}()
	return func() string {
		cancel()
		<-done
		return b.String()
	}
}
