package integration

import (
	"testing"
	"time"
	"strings"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

func TestMe(t *testing.T) {
	r := resolvertest.New(t)
	d := start(t, section(`default_policy = "IfDigestChanged"`))
	d.origin("registry.test", r)
	d.push(r, "app:1", resolvertest.Image(1, 2, 1000))
	d.mustPull("registry.test/app:1")
	t.Log(d.labels("registry.test/app:1"))
	for _, x := range r.Requests() { t.Log(x.Method, x.Path, x.Status) }
	r.Forget()
	d.mustPull("registry.test/app:1")
	for _, x := range r.Requests() { t.Log(x.Method, x.Path, x.Status) }
	d.push(r, "app:1", resolvertest.Image(2, 2, 1000))
	r.Forget()
	d.mustPull("registry.test/app:1")
	for _, x := range r.Requests() { t.Log(x.Method, x.Path, x.Status) }
	r.Refuse()
	d.mustPull("registry.test/app:1")
	time.Sleep(300*time.Millisecond)
	t.Log(d.labels("registry.test/app:1"))
	_, err := d.pull("registry.test/app:1", hint("policy", "Always"))
	t.Log(err)
	_, err = d.pull("registry.test/app:1", hint("policy", "Sometimes"))
	t.Log(err)
	for _, l := range d.logged(0, "pullwarden") { if strings.Contains(l, "pullwarden:") {t.Log(l)} }
}
