// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// Texts hide the secrets of all hosts of a session. A host is refused for those of the caller and the node, its own,
// and those of whom it is led to by, and for no others: these would be another host's to choose.
func TestSecretsOfHosts(t *testing.T) {
	var session Redactor
	mirror, registry := session.ForHost(), session.ForHost()
	named := session.ForHost(registry)
	const password, mirrors, signature, registrys = "Password-1", "token-of-a-mirror", "signature-of-a-mirror", "token-of-the-registry"
	registry.Texts() // nothing is kept of before
	named.Texts()
	session.Add(password)
	mirror.AddToken("Bearer " + mirrors)
	mirror.AddURL(&url.URL{RawQuery: "sig=" + signature}, "")
	registry.AddToken("Bearer " + registrys)
	for secret, refused := range map[string]map[*Redactor]bool{
		password:  {mirror: true, registry: true, named: true},
		mirrors:   {mirror: true},
		signature: {mirror: true},
		registrys: {registry: true, named: true},
	} {
		for _, r := range []*Redactor{mirror, registry, named} {
			if got := r.Clean("has " + secret); got != "has ***" {
				t.Errorf("told: %q", got)
			}
			if r.TellsHost(&url.URL{Scheme: "http", Host: secret + ".test"}) {
				t.Errorf("%s is told as a host", secret)
			}
			if r.Texts().Knows(secret) != refused[r] || r.Repeats(secret) != (refused[r] && secret != signature) ||
				r.LongTexts().In(secret) != (refused[r] && secret != signature) {
				t.Errorf("%s is refused: %v", secret, !refused[r])
			}
		}
		if !session.Texts().Knows(secret) {
			t.Errorf("the session does not know %s", secret)
		}
	}
}

// A host that redirects by many values, and has as many tokens, has texts forget nothing of what another one was sent.
func TestHostsForgetTheirOwnSecretsAlone(t *testing.T) {
	var session Redactor
	mirror, registry := session.ForHost(), session.ForHost()
	const signature, token = "signature-of-the-registry", "token-of-the-registry"
	registry.AddURL(&url.URL{RawQuery: "sig=" + signature}, "")
	registry.AddToken("Bearer " + token)
	var query []string
	for i := range maxValues {
		query = append(query, fmt.Sprintf("sig=%08d", i))
		mirror.AddToken(fmt.Sprintf("Bearer token-%08d", i))
	}
	mirror.AddURL(&url.URL{RawQuery: strings.Join(query, "&")}, "")
	for _, r := range []*Redactor{&session, mirror, registry} {
		if got := r.Clean("has " + signature + " and " + token); got != "has *** and ***" {
			t.Errorf("told: %q", got)
		}
	}
}
