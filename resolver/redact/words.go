// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"regexp"
	"slices"
	"strings"
)

// isWords reports whether a value is made of short words in lower case, as names of repositories
// are. Nothing that is drawn or computed looks like that.
func isWords(value string) bool {
	for word := range strings.FieldsFuncSeq(value, func(c rune) bool { return strings.ContainsRune("-._/", c) }) {
		if len(word) >= minQuery || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") != "" {
			return false
		}
	}
	return true
}

// isPath reports whether a value is a path of words, and of what has been asked for: of a host and
// a path.
func isPath(value string, asked []string) bool {
	for part := range strings.SplitSeq(value, "/") {
		if !isWords(part) && !slices.ContainsFunc(asked, func(a string) bool {
			path, _, _ := strings.Cut(a, "?")
			return strings.Contains(path+"/", "/"+part+"/")
		}) {
			return false
		}
	}
	return true
}

// mediaType are the media types of documents and layers: of words, and a version.
var mediaType = regexp.MustCompile(`^(application|image|multipart|text)/[a-z]{1,15}([-.+]([a-z]{1,15}|v[0-9]{1,2}))*$`)

func isMediaType(value string) bool { return mediaType.MatchString(value) }

// hostName are names of hosts of words and numbers, perhaps with a port, and with a scheme, as the header Origin has them.
var hostName = regexp.MustCompile(`^(https?://)?[a-z]{0,15}[0-9]{0,3}(-[a-z]{0,15}[0-9]{0,3})*(\.[a-z]{0,15}[0-9]{0,3}(-[a-z]{0,15}[0-9]{0,3})*)+(:[0-9]{1,5})?$`)

// shortName are names of regions, zones, clusters and nodes: eu-central-1, eu-central-1a, k8s-node-17.
var shortName = regexp.MustCompile(`^` + shortPart + `([-.]` + shortPart + `)*[-.](` + shortPart + `|[0-9]{1,3}[a-z])$`)

const (
	shortPart = `([a-z]{1,15}[0-9]{0,3}|[0-9]{1,3}|[a-z][0-9]{1,2}[a-z])`
	maxDigits = 3 // of such a name: groups that are drawn have more
)

func isShortName(value string) bool {
	digits := 0
	for _, c := range value {
		if c >= '0' && c <= '9' {
			digits++
		}
	}
	return digits <= maxDigits && shortName.MatchString(value)
}

// isOrdinary reports whether a part of a header is a word that errors may have, and no secret.
func isOrdinary(part string) bool {
	word := strings.ToLower(part[:1]) + part[1:]
	return isWords(word) || isAlgorithm(part) || isMediaType(part) || hostName.MatchString(part) || isShortName(part)
}
