// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/distribution/reference"

	"github.com/pullwarden/pullwarden/internal/registryname"
)

// Image is a reference in its normal form. Its registry may be spelled in any
// way.
type Image struct {
	Repository string // with its registry: docker.io/library/nginx
	Tag        string // "" = none
	Digest     string // "" = none; with a digest the tag does not count
}

// ImageOf returns the image of a reference in its normal form, which
// reference.ParseDockerRef gives.
func ImageOf(named reference.Named) Image {
	image := Image{Repository: named.Name()}
	if tagged, ok := named.(reference.Tagged); ok {
		image.Tag = tagged.Tag()
	}
	if digested, ok := named.(reference.Digested); ok {
		image.Digest = digested.Digest().String()
	}
	return image
}

// spelled is an image with the names of its repository, one for each name of the
// registry.
type spelled struct {
	*Image
	canonical string
	all       []string // nil = not asked for yet
}

func (i *Image) spelled() spelled {
	return spelled{Image: i, canonical: registryname.Repository(i.Repository)}
}

// spellings returns all names of the repository, the canonical one first.
func (s *spelled) spellings() []string {
	host, _, ok := strings.Cut(s.Repository, "/")
	_, path, _ := strings.Cut(s.canonical, "/")
	switch {
	case s.all != nil:
	case !ok:
		s.all = []string{s.Repository}
	default:
		s.all = registryname.Spellings(host)
		for n := range s.all {
			s.all[n] += "/" + path
		}
	}
	return s.all
}

// ImageGlob matches images: * within a component of the repository, ** across
// them, and after a colon in the last component the tags. It is about a
// registry, by whichever of its names. The zero value matches none.
type ImageGlob struct {
	text       string
	repository string // with a canonical host, or a pattern of hosts in lower case
	pattern    bool   // of hosts: it may mean another name than the canonical one
	tag        string // "" = any tag, and digests
	literal    string // what every repository that matches begins with
}

// WithoutTag returns the glob for all of its repositories; false where it has no tag.
func (g ImageGlob) WithoutTag() (ImageGlob, bool) {
	if g.tag == "" {
		return g, false
	}
	g.text, g.tag = g.text[:strings.LastIndexByte(g.text, ':')], ""
	return g, true
}

// namesRegistry reports whether the glob is about one registry, which it names.
func (g *ImageGlob) namesRegistry() bool {
	return g.text != "" && !g.pattern && !strings.HasPrefix(g.repository, "**")
}

// Registry returns the one name of the registry that the glob is about; "" where it is a pattern of
// registries, or about all.
func (g ImageGlob) Registry() string {
	if !g.namesRegistry() {
		return ""
	}
	host, _, _ := cutHost(g.repository)
	return host
}

// metaCharacters begin what is not literal in a glob.
const metaCharacters = `*?[{\`

// UnmarshalText compiles a glob. Globs that are malformed, or that can match
// no image because they are not written in the normal form, are errors.
func (g *ImageGlob) UnmarshalText(text []byte) error {
	return unmarshal(g, text, parseImageGlob)
}

// String returns the glob as it was written.
func (g ImageGlob) String() string { return g.text }

func parseImageGlob(text string) (ImageGlob, error) {
	g := ImageGlob{text: text, repository: text}
	if i := strings.LastIndexByte(text, ':'); i > strings.LastIndexByte(text, '/') {
		g.repository, g.tag = text[:i], text[i+1:]
		if g.tag == "" {
			return ImageGlob{}, errors.New("has no tag after the colon")
		}
	}
	for _, part := range []string{g.repository, g.tag} {
		if !doublestar.ValidatePattern(part) {
			return ImageGlob{}, errors.New("is not a valid glob")
		}
	}
	if err := checkRepositoryGlob(g.repository); err != nil {
		return ImageGlob{}, err
	}
	g.repository, g.pattern = canonicalGlob(g.repository)
	g.literal = g.repository
	if i := strings.IndexAny(g.repository, metaCharacters); i >= 0 {
		// A trailing /** matches what stands before it, too.
		g.literal = strings.TrimSuffix(g.repository[:i], "/")
	}
	return g, nil
}

// canonicalGlob returns a glob by which images are compared, and whether its
// host is a pattern.
func canonicalGlob(glob string) (canonical string, pattern bool) {
	host, path, hasPath := cutHost(glob)
	pattern = strings.ContainsAny(host, metaCharacters) && host != "**"
	if address, ok := ipv6(host); ok {
		pattern, host = false, bracketEscaper.Replace(registryname.Canonical(address))
	} else if pattern {
		host = plainPattern(host)
	} else if hasPath {
		host = registryname.Canonical(host)
	}
	if hasPath {
		host += "/" + path
	}
	return host, pattern
}

// cutHost cuts a glob after its host. Alternatives that begin in the host belong to it, with
// the repositories that they have.
func cutHost(glob string) (host, path string, hasPath bool) {
	depth := 0
	for i, c := range glob {
		switch {
		case c == '{':
			depth++
		case c == '}':
			depth--
		case c == '/' && depth <= 0:
			return glob[:i], glob[i+1:], true
		}
	}
	return glob, "", false
}

// plainPattern writes a pattern of hosts as [registryname.Canonical] does what is no
// pattern, but for the ports of HTTPS, with which hosts are matched too.
func plainPattern(pattern string) string {
	return zerosOfPort.ReplaceAllString(registryname.Lower(pattern), ":$1")
}

// zerosOfPort are those before another digit.
var zerosOfPort = regexp.MustCompile(`:0+([0-9])`)

var (
	bracketEscaper   = strings.NewReplacer("[", `\[`, "]", `\]`)
	bracketUnescaper = strings.NewReplacer("[[]", "[", `\[`, "[", `\]`, "]")
)

// ipv6 returns the address that the host of a glob is. Its brackets are those of the
// address, whether they are escaped or not: a class of characters makes no host.
func ipv6(host string) (address string, ok bool) {
	address = bracketUnescaper.Replace(host)
	return address, registryname.IsIPv6(address)
}

// checkRepositoryGlob refuses what would silently match less than it seems to,
// or nothing at all: a rule that protects nothing is worse than an error.
func checkRepositoryGlob(glob string) error {
	host, path, hasPath := strings.Cut(glob, "/")
	switch {
	case glob == "":
		return errors.New("has no repository")
	case strings.Contains(glob, "@"):
		return errors.New("names a digest: allowed are repositories and tags")
	case strings.HasSuffix(glob, "/") || strings.Contains(glob, "//"):
		return errors.New("has an empty component")
	case !wholeComponents(glob):
		return errors.New("has ** beside other characters: it must be a component of its own, as in registry.example.com/team/**")
	case strings.Contains(glob, "**"):
	case !hasPath:
		return errors.New("matches no image: names are written in full, as docker.io/library/nginx; ** matches all")
	case registryname.Canonical(host) == "docker.io" && !strings.Contains(path, "/"):
		return errors.New("matches no image: on Docker Hub names have two components, as docker.io/library/nginx")
	}
	if strings.ContainsAny(host, metaCharacters) {
		return nil
	}
	if !strings.ContainsAny(host, ".:") && host != "localhost" && registryname.Lower(host) == host {
		return errors.New("matches no image: names begin with their registry, as docker.io/library/nginx")
	}
	return nil
}

// wholeComponents reports whether each ** is a component of its own. Elsewhere
// it would be taken for a *.
func wholeComponents(glob string) bool {
	for rest := glob; ; {
		before, after, found := strings.Cut(rest, "**")
		if !found {
			return true
		}
		if before != "" && !strings.HasSuffix(before, "/") || after != "" && !strings.HasPrefix(after, "/") {
			return false
		}
		rest = after
	}
}

func (g ImageGlob) matches(image *Image) bool {
	s := image.spelled()
	return g.matchesAny(&s)
}

// matchesAny reports whether the glob matches one of an image's names.
func (g *ImageGlob) matchesAny(image *spelled) bool {
	switch {
	case g.text == "":
		return false
	case g.tag != "" && (image.Digest != "" || image.Tag == "" || !doublestar.MatchUnvalidated(g.tag, image.Tag)):
		return false
	case g.matchesRepository(image.canonical):
		return true
	}
	return g.pattern && slices.ContainsFunc(image.spellings()[1:], g.matchesRepository)
}

func (g *ImageGlob) matchesRepository(name string) bool {
	return strings.HasPrefix(name, g.literal) && doublestar.MatchUnvalidated(g.repository, name)
}

// NamespaceGlob matches the names of Kubernetes namespaces. The zero value
// matches none.
type NamespaceGlob struct{ text string }

// UnmarshalText accepts well-formed globs without slashes.
func (g *NamespaceGlob) UnmarshalText(text []byte) error {
	return unmarshal(g, text, func(text string) (NamespaceGlob, error) {
		switch {
		case text == "":
			return NamespaceGlob{}, errors.New("names no namespace")
		case !doublestar.ValidatePattern(text):
			return NamespaceGlob{}, errors.New("is not a valid glob")
		case strings.Contains(text, "/"):
			return NamespaceGlob{}, errors.New("matches no namespace: their names have no slashes")
		}
		return NamespaceGlob{text}, nil
	})
}

// String returns the glob as it was written.
func (g NamespaceGlob) String() string { return g.text }

func (g NamespaceGlob) matches(namespace string) bool {
	return namespace != "" && doublestar.MatchUnvalidated(g.text, namespace)
}
