// Package browser has tests that drive a real browser against handlers of this
// library: what HTML, headers and cookies come to, only a browser can tell.
//
// It is a module of its own, since nothing else needs a driver of browsers, and
// is not released. Where there is no Chromium the tests are skipped; with CI=true
// they fail.
package browser
