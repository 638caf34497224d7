// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import "testing"

const someDigest = "sha256:0123"

// imageGlobs are globs with images that they match, and some that they do not.
var imageGlobs = []struct {
	glob    string
	matches []Image
	not     []Image
}{
	{
		"docker.io/library/nginx",
		[]Image{{"docker.io/library/nginx", "1.27", ""}, {"docker.io/library/nginx", "", someDigest}, {"docker.io/library/nginx", "", ""}},
		[]Image{{"docker.io/library/nginx2", "1.27", ""}, {"docker.io/library", "", ""}, {"docker.io/team/nginx", "", ""}, {"docker.io/library/nginx/x", "", ""}, {}},
	},
	{
		"docker.io/library/*",
		[]Image{{"docker.io/library/nginx", "1.27", ""}},
		[]Image{{"docker.io/library/a/b", "1", ""}, {"docker.io/libraryx/a", "1", ""}},
	},
	{
		"registry.example.com/team-a/**",
		[]Image{{"registry.example.com/team-a/x", "1", ""}, {"registry.example.com/team-a/x/y/z", "", someDigest}, {"registry.example.com/team-a", "1", ""}},
		[]Image{{"registry.example.com/team-ab/x", "1", ""}, {"registry.example.com/x/team-a/x", "1", ""}, {"registry.example.com.evil/team-a/x", "1", ""}},
	},
	{
		"**",
		[]Image{{"docker.io/library/nginx", "1", ""}, {"registry:5000/a/b/c", "", someDigest}},
		nil,
	},
	{
		"**/web",
		[]Image{{"registry:5000/web", "1", ""}, {"registry:5000/a/b/web", "1", ""}},
		[]Image{{"registry:5000/webs", "1", ""}},
	},
	{
		"ghcr.io/**/web/*",
		[]Image{{"ghcr.io/web/a", "1", ""}, {"ghcr.io/x/y/web/a", "1", ""}},
		[]Image{{"ghcr.io/x/web", "1", ""}},
	},
	{ // the port is no tag
		"registry:5000/**",
		[]Image{{"registry:5000/x", "1", ""}, {"registry:5000/x", "", someDigest}},
		[]Image{{"registry/x", "5000", ""}, {"registry:5001/x", "1", ""}},
	},
	{
		"registry:5000/x:1.*",
		[]Image{{"registry:5000/x", "1.27", ""}, {"registry:5000/x", "1.", ""}},
		[]Image{{"registry:5000/x", "2.0", ""}, {"registry:5000/x", "", someDigest}, {"registry:5000/x", "1.27", someDigest}, {"registry:5000/x", "", ""}},
	},
	{ // * needs a tag, too
		"docker.io/library/nginx:*",
		[]Image{{"docker.io/library/nginx", "latest", ""}},
		[]Image{{"docker.io/library/nginx", "", someDigest}, {"docker.io/library/nginx", "", ""}},
	},
	{
		"**:{latest,edge-[0-9]}",
		[]Image{{"docker.io/library/nginx", "latest", ""}, {"registry:5000/x", "edge-7", ""}},
		[]Image{{"docker.io/library/nginx", "edge-x", ""}},
	},
	{
		"{docker.io,ghcr.io}/team/?pp",
		[]Image{{"docker.io/team/app", "1", ""}, {"ghcr.io/team/xpp", "1", ""}},
		[]Image{{"quay.io/team/app", "1", ""}, {"ghcr.io/team/pp", "1", ""}},
	},
	{
		`\[::1\]:5000/**`,
		[]Image{{"[::1]:5000/x", "1", ""}},
		[]Image{{":5000/x", "1", ""}},
	},
	{
		"[2001:DB8:0::1]:05000/**",
		[]Image{{"[2001:db8::1]:5000/x", "1", ""}, {"[2001:db8:0:0:0:0:0:1]:5000/x", "1", ""}, {"[2001:DB8::1]:0005000/x", "1", ""}},
		[]Image{{"[2001:db8::2]:5000/x", "1", ""}, {"[2001:db8::1]/x", "1", ""}},
	},
	{
		`\[0:0::1\]:443/x`,
		[]Image{{"[::1]/x", "1", ""}, {"[0:0::1]:0443/x", "1", ""}},
		[]Image{{"[::1]:5000/x", "1", ""}},
	},
	{
		"registry:05000/*",
		[]Image{{"registry:5000/x", "1", ""}, {"registry:005000/x", "1", ""}},
		[]Image{{"registry:50/x", "1", ""}},
	},
	{
		"localhost/x",
		[]Image{{"localhost/x", "latest", ""}, {"Localhost/x", "latest", ""}, {"localhost:443/x", "latest", ""}},
		[]Image{{"localhost/X", "latest", ""}, {"localhost:80/x", "latest", ""}},
	},
	{ // one registry has one name
		"Registry.Example.com:443/team/**",
		[]Image{{"registry.example.com/team/x", "1", ""}, {"REGISTRY.example.com:443/team/x", "1", ""}},
		[]Image{{"registry.example.com:5000/team/x", "1", ""}, {"registry.example.com/Team/x", "1", ""}},
	},
	{
		"registry-1.docker.io/library/nginx",
		[]Image{{"docker.io/library/nginx", "1", ""}, {"index.docker.io/library/nginx", "1", ""}, {"Registry-1.docker.io:443/library/nginx", "1", ""}},
		[]Image{{"auth.docker.io/library/nginx", "1", ""}},
	},
	{ // so has an official image
		"docker.io/library/*:1",
		[]Image{{"docker.io/nginx", "1", ""}, {"registry-1.docker.io/nginx", "1", ""}, {"Docker.io:443/nginx", "1", ""}},
		[]Image{{"registry.test/nginx", "1", ""}, {"docker.io:5000/nginx", "1", ""}},
	},
	{
		"*.docker.io/library/nginx",
		[]Image{{"docker.io/nginx", "1", ""}, {"registry-1.docker.io/nginx", "1", ""}},
		[]Image{{"docker.io/team/nginx", "1", ""}},
	},
	{
		"*.Example.com:443/**",
		[]Image{{"a.example.com/x", "1", ""}, {"A.Example.com:443/x", "1", ""}},
		[]Image{{"a.example.com:5000/x", "1", ""}, {"example.com/x", "1", ""}},
	},
	{ // the alternatives of a host may have repositories, too
		"{registry.test/a,Other.Test:0443/b,Docker.io/library}/**",
		[]Image{{"registry.test/a/x", "1", ""}, {"other.test/b/x", "1", ""}, {"OTHER.test:443/b/x", "1", ""}, {"index.docker.io/library/x", "1", ""}},
		[]Image{{"registry.test/b/x", "1", ""}, {"other.test:5000/b/x", "1", ""}},
	},
	{
		"*.example.com:05000/**",
		[]Image{{"a.example.com:5000/x", "1", ""}, {"a.example.com:0005000/x", "1", ""}},
		[]Image{{"a.example.com/x", "1", ""}, {"a.example.com:50/x", "1", ""}},
	},
	{
		"*.example.com/**",
		[]Image{{"a.example.com:443/x", "1", ""}, {"A.example.com/x", "1", ""}},
		[]Image{{"a.example.com:5000/x", "1", ""}},
	},
}

func TestImageGlob(t *testing.T) {
	for _, test := range imageGlobs {
		var g ImageGlob
		if err := g.UnmarshalText([]byte(test.glob)); err != nil {
			t.Error(err)
			continue
		}
		if g.String() != test.glob {
			t.Errorf("%s is shown as %s", test.glob, g)
		}
		for _, image := range test.matches {
			if !g.matches(&image) {
				t.Errorf("%s does not match %+v", test.glob, image)
			}
		}
		for _, image := range test.not {
			if g.matches(&image) {
				t.Errorf("%s matches %+v", test.glob, image)
			}
		}
	}
}

func TestNamespaceGlob(t *testing.T) {
	for _, test := range []struct {
		glob, namespace string
		want            bool
	}{
		{"team-a", "team-a", true},
		{"team-a", "team-ab", false},
		{"team-a-*", "team-a-prod", true},
		{"team-a-*", "team-a", false},
		{"{dev,test}", "test", true},
		{"*", "default", true},
		{"*", "", false},
		{"**", "", false},
	} {
		var g NamespaceGlob
		if err := g.UnmarshalText([]byte(test.glob)); err != nil {
			t.Error(err)
		}
		if got := g.matches(test.namespace); got != test.want {
			t.Errorf("%s, %q: %v", test.glob, test.namespace, got)
		}
	}
}

func TestZeroGlobsMatchNothing(t *testing.T) {
	if (ImageGlob{}).matches(&Image{}) || (NamespaceGlob{}).matches("") {
		t.Error("they do")
	}
}
