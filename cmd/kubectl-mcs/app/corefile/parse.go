// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"fmt"
	"slices"
	"strings"
)

// maxExpansions limits how often snippets and files are imported: they may import each
// other.
const maxExpansions = 1000

// File is a file that CoreDNS reads.
type File struct{ Path, Text string }

// Reader returns the files that a file imports with a pattern, or false if they cannot
// be read.
type Reader func(from, pattern string) ([]File, bool)

// Corefile is what a Corefile and the files that it imports configure.
type Corefile struct {
	Servers []Server
	// Imports are the imports of files between server blocks.
	Imports []Import
	// Managed is true if the Corefile itself has the server block that Add adds.
	Managed bool
}

// Import is an import of files.
type Import struct {
	Pattern string
	At      Position
	// Read is true if the files could be read.
	Read bool
}

// Position is a line of a file.
type Position struct {
	File string
	Line int
}

func (p Position) String() string {
	if p.File == "" {
		return fmt.Sprintf("line %d", p.Line)
	}
	return fmt.Sprintf("line %d of %s", p.Line, p.File)
}

// Server is a server block.
type Server struct {
	// Keys are zones, with a port or a protocol if they are given.
	Keys []string
	// Ports are the ports on which it answers DNS queries, in order.
	Ports      []string
	Directives []Directive
	// Unread are the imports of files that could not be read.
	Unread []Import
	// Managed is true for the server block that Add adds.
	Managed bool
	// At is its first line, and End the number of the last one.
	At  Position
	End int

	start int
}

// Directive is a directive of a server block: usually a plugin.
type Directive struct {
	Name string
	Args []string
	// Options are the lines within the braces of the directive.
	Options []Option
	At      Position
}

// Option is a line within the braces of a directive.
type Option struct {
	Words []string
	At    Position
}

// Parse parses a Corefile without the files that it imports. It rejects everything that
// CoreDNS rejects because of braces or quotes, and Corefiles without braces, to which
// nothing can be added.
func Parse(text string) (*Corefile, error) {
	return ParseFiles(File{Text: text}, "53", func(string, string) ([]File, bool) { return nil, false })
}

// ParseFiles parses a Corefile and the files that it imports. The default port is that
// of zones without a port.
func ParseFiles(main File, defaultPort string, read Reader) (*Corefile, error) {
	p := &parser{read: read, defaultPort: defaultPort, snippets: map[string][]token{}, managed: map[string]*span{}, result: &Corefile{}}
	if err := p.file(main); err != nil {
		return nil, err
	}
	p.result.Managed = p.managed[main.Path] != nil
	for i := range p.result.Servers {
		server := &p.result.Servers[i]
		at := p.managed[server.At.File]
		server.Managed = at != nil && at.start <= server.start && server.start < at.end
	}
	return p.result, nil
}

type parser struct {
	read        Reader
	defaultPort string
	snippets    map[string][]token
	// managed is where Add has added a server block, by file.
	managed    map[string]*span
	expansions int
	result     *Corefile
}

// file parses the server blocks of a file.
func (p *parser) file(file File) error {
	tokens, err := tokensOf(file)
	if err != nil {
		return err
	}
	if p.managed[file.Path], err = findManaged(file.Text); err != nil {
		return inFile(file.Path, err)
	}
	return p.servers(tokens)
}

func tokensOf(file File) ([]token, error) {
	tokens, unterminated := tokenize(file)
	if unterminated {
		return nil, fmt.Errorf("%s: a quoted string does not end", tokens[len(tokens)-1].at())
	}
	return tokens, nil
}

func inFile(path string, err error) error {
	if path == "" {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

func (t token) at() Position { return Position{File: t.file, Line: t.line + 1} }

// servers parses server blocks, snippets and imports.
func (p *parser) servers(tokens []token) error {
	for len(tokens) > 0 {
		first := tokens[0]
		if first.text == "import" {
			switch {
			case len(tokens) < 2 || tokens[1].line > first.lastLine:
				return fmt.Errorf("%s: import requires a file or a snippet", first.at())
			case len(tokens) > 2 && tokens[2].line == tokens[1].lastLine:
				return fmt.Errorf("%s: import takes one file or snippet", first.at())
			}
			if err := p.importBetweenServers(tokens[1]); err != nil {
				return err
			}
			tokens = tokens[2:]
			continue
		}
		open := slices.IndexFunc(tokens, func(t token) bool { return t.text == "{" })
		switch {
		case open < 0 || !isKeyList(tokens[:open+1]):
			return fmt.Errorf("%s: %q is followed by no server block in braces", first.at(), first.text)
		case open == 0:
			return fmt.Errorf("%s: a server block has no zone", first.at())
		}
		end, err := closing(tokens, open)
		if err != nil {
			return err
		}
		if err := p.server(tokens[:open], tokens[open+1:end], tokens[end].line+1); err != nil {
			return err
		}
		tokens = tokens[end+1:]
	}
	return nil
}

// isKeyList reports whether tokens are the zones of a server block, and the brace that
// opens it: on one line, or continued after a comma. The brace may be on the next line.
func isKeyList(tokens []token) bool {
	for i := 1; i < len(tokens)-1; i++ {
		if tokens[i].line > tokens[i-1].lastLine && !strings.HasSuffix(tokens[i-1].text, ",") {
			return false
		}
	}
	return !slices.ContainsFunc(tokens, func(t token) bool { return t.text == "}" })
}

// closing returns the index of the brace that closes the one at an index.
func closing(tokens []token, open int) (int, error) {
	depth := 0
	for i := open; i < len(tokens); i++ {
		switch tokens[i].text {
		case "{":
			depth++
		case "}":
			if depth--; depth == 0 {
				return i, nil
			}
		}
	}
	return 0, fmt.Errorf("%s: a brace is not closed", tokens[open].at())
}

// server adds a server block or a snippet.
func (p *parser) server(keys, body []token, end int) error {
	if name, ok := snippetName(keys); ok {
		p.snippets[name] = body
		return nil
	}
	server := Server{start: keys[0].start, At: keys[0].at(), End: end}
	for _, key := range keys {
		if key := strings.TrimSuffix(key.text, ","); key != "" {
			server.Keys = append(server.Keys, key)
		}
	}
	server.Ports = portsOf(server.Keys, p.defaultPort)
	err := p.directives(&server, body)
	p.result.Servers = append(p.result.Servers, server)
	return err
}

// snippetName returns the name of a snippet, which is in parentheses.
func snippetName(keys []token) (string, bool) {
	name := keys[0].text
	if len(keys) != 1 || len(name) < 3 || name[0] != '(' || name[len(name)-1] != ')' {
		return "", false
	}
	return name[1 : len(name)-1], true
}

func (p *parser) importBetweenServers(pattern token) error {
	if err := p.expand(pattern); err != nil {
		return err
	}
	if snippet, ok := p.snippets[pattern.text]; ok {
		return p.servers(snippet)
	}
	files, ok := p.readImport(pattern)
	p.result.Imports = append(p.result.Imports, Import{pattern.text, pattern.at(), ok})
	for _, file := range files {
		if err := p.file(file); err != nil {
			return err
		}
	}
	return nil
}

// expand counts the imports.
func (p *parser) expand(pattern token) error {
	if p.expansions++; p.expansions > maxExpansions {
		return fmt.Errorf("%s: %q is imported too often", pattern.at(), pattern.text)
	}
	return nil
}

// readImport returns imported files. Names with environment variables are unknown.
func (p *parser) readImport(pattern token) ([]File, bool) {
	if hasVariable(pattern.text) {
		return nil, false
	}
	return p.read(pattern.file, pattern.text)
}

// hasVariable reports whether CoreDNS replaces a part of a word with an environment
// variable.
func hasVariable(word string) bool {
	return strings.Contains(word, "{$") || strings.Contains(word, "{%")
}

// directives adds directives to a server block.
func (p *parser) directives(server *Server, tokens []token) error {
	for _, lines := range statements(tokens) {
		first := lines[0]
		if first[0].text == "import" && len(first) == 2 {
			if err := p.importDirectives(server, first[1]); err != nil {
				return err
			}
			continue
		}
		directive := Directive{Name: first[0].text, Args: words(first[1:]), At: first[0].at()}
		for _, line := range lines[1:] {
			directive.Options = append(directive.Options, Option{words(line), line[0].at()})
			if line[0].text == "import" && len(line) == 2 { // options of a plugin are rarely imported
				server.Unread = append(server.Unread, Import{Pattern: line[1].text, At: line[0].at()})
			}
		}
		server.Directives = append(server.Directives, directive)
	}
	return nil
}

// importDirectives adds the directives of a snippet or of files to a server block.
func (p *parser) importDirectives(server *Server, pattern token) error {
	if err := p.expand(pattern); err != nil {
		return err
	}
	if snippet, ok := p.snippets[pattern.text]; ok {
		return p.directives(server, snippet)
	}
	files, ok := p.readImport(pattern)
	if !ok {
		server.Unread = append(server.Unread, Import{Pattern: pattern.text, At: pattern.at()})
	}
	for _, file := range files {
		tokens, err := tokensOf(file)
		if err != nil {
			return err
		}
		if err := balanced(tokens); err != nil {
			return err
		}
		if err := p.directives(server, tokens); err != nil {
			return err
		}
	}
	return nil
}

// balanced returns an error if braces are not in pairs: they would open or close a
// server block of the file that imports the tokens.
func balanced(tokens []token) error {
	depth := 0
	for _, t := range tokens {
		switch t.text {
		case "{":
			depth++
		case "}":
			depth--
		}
		if depth < 0 {
			return fmt.Errorf("%s: a brace is not opened", t.at())
		}
	}
	if depth > 0 {
		return fmt.Errorf("%s: a brace is not closed", tokens[len(tokens)-1].at())
	}
	return nil
}

func words(tokens []token) []string {
	var texts []string
	for _, t := range tokens {
		texts = append(texts, t.text)
	}
	return texts
}

// statements groups tokens by directive, and the tokens of each by line. Braces
// themselves are omitted.
func statements(tokens []token) [][][]token {
	var result [][][]token
	depth := 0
	for i, t := range tokens {
		newLine := i == 0 || t.line > tokens[i-1].lastLine || tokens[i-1].text == "{" || tokens[i-1].text == "}"
		switch t.text {
		case "{":
			depth++
			continue
		case "}":
			depth--
			continue
		}
		switch {
		case newLine && depth == 0 || len(result) == 0:
			result = append(result, [][]token{{t}})
		case newLine:
			last := &result[len(result)-1]
			*last = append(*last, []token{t})
		default:
			lines := result[len(result)-1]
			lines[len(lines)-1] = append(lines[len(lines)-1], t)
		}
	}
	return result
}
