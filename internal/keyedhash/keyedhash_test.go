// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package keyedhash

import (
	"encoding/hex"
	"testing"
)

// Fixed vectors: the length of "user" is 4, so the first is what
//
//	printf '\4\0\0\0\0\0\0\0userpassword' | openssl dgst -sha256 -mac HMAC \
//	  -macopt hexkey:0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20
//
// prints.
func TestSum(t *testing.T) {
	key := make([]byte, 32)
	for i := range key {
		key[i] = byte(i + 1)
	}
	for _, test := range []struct{ username, secret, want string }{
		{"user", "password", "6318f1c286974536bbd56f4dae3cff43408c87a1dc1a8b5795d7254fdcb11113"},
		{"robot$team-a", "päss wörd", "48c35cc826dac55012fafab03393f566701e715cd1eefc2e76efa3cb8fcbc130"},
		{"", "token", "9befa453ab6e034553ad84664fd2079f2f1092d9c70274c516cb6500e12c69a0"},
		{"user", "", "b902bd1aaae112b04effb6acf02bd9173d45789c0032e221071928c6ed1f335f"},
		{"", "", "c2cce957d808d548792a6ab7940ba65963c8be6fb6778fdb8e354c69cac6df74"},
	} {
		sum := Sum(key, test.username, test.secret)
		if got := hex.EncodeToString(sum[:]); got != test.want {
			t.Errorf("%q, %q: got %s, want %s", test.username, test.secret, got, test.want)
		}
	}
}

func TestSumTellsApart(t *testing.T) {
	seen := map[[32]byte]string{}
	for what, sum := range map[string][32]byte{
		"a+bc":        Sum([]byte("k"), "a", "bc"),
		"ab+c":        Sum([]byte("k"), "ab", "c"),
		"+abc":        Sum([]byte("k"), "", "abc"),
		"abc+":        Sum([]byte("k"), "abc", ""),
		"another key": Sum([]byte("l"), "a", "bc"),
	} {
		if before, ok := seen[sum]; ok {
			t.Errorf("%s and %s have the same sum", what, before)
		}
		seen[sum] = what
	}
}
